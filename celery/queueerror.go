package celery

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueDownError reports that a queue can't be observed now: its node is down or doesn't answer, it has no majority,
// or another connection uses it exclusively. Its number of messages is unknown. Other queues are not affected.
type QueueDownError struct{ Queue, Reason string }

func (e *QueueDownError) Error() string {
	return fmt.Sprintf("queue %q can't be asked: %s", e.Queue, e.Reason)
}

// QueueAccessError reports that the broker's user may not ask for or declare a queue. Other
// queues are not affected.
type QueueAccessError struct{ Queue, Reason string }

func (e *QueueAccessError) Error() string {
	return fmt.Sprintf("the broker refuses queue %q: %s%s", e.Queue, e.Reason, howToGrant)
}

// howToGrant names the command that prints the statement for a missing right. The statement has all rights of a
// daemon, because it replaces the rights that the user has.
const howToGrant = ` ("swh-scheduler config check --for DAEMON" prints the statement that grants it)`

// explained adds howToGrant to the broker's refusal for missing rights, and returns any other error unchanged.
func explained(err error) error {
	if e, ok := errors.AsType[*amqp.Error](err); ok && strings.Contains(e.Reason, " refused for user '") {
		return fmt.Errorf("%w%s", err, howToGrant)
	}
	return err
}

// IsOfQueue reports whether an error, or each of those joined in it, is of single queues only, and does not affect
// others: QueueDownError, QueueAccessError, RejectedError, ReturnedError.
func IsOfQueue(err error) bool {
	switch e := err.(type) {
	case *QueueDownError, *QueueAccessError, *RejectedError, *ReturnedError:
		return true
	case interface{ Unwrap() error }:
		return IsOfQueue(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		for _, err := range all {
			if !IsOfQueue(err) {
				return false
			}
		}
		return len(all) > 0
	}
	return false
}

// ofQueue gives the error of a request about a queue its type. RabbitMQ also returns 404 for a queue whose node is
// down or doesn't answer in time.
func ofQueue(queue string, err error) error {
	e, ok := errors.AsType[*amqp.Error](err)
	if !ok || isMissing(err) {
		return err
	}
	switch e.Code {
	case amqp.NotFound, amqp.ResourceLocked, amqp.PreconditionFailed:
		return &QueueDownError{queue, e.Reason}
	case amqp.AccessRefused:
		return &QueueAccessError{queue, e.Reason}
	}
	return err
}

// isMissing reports whether the broker's error is that there is no such queue or exchange.
func isMissing(err error) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && e.Code == amqp.NotFound &&
		(strings.HasPrefix(e.Reason, "NOT_FOUND - no queue ") || strings.HasPrefix(e.Reason, "NOT_FOUND - no exchange "))
}

func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && e.Code == code
}
