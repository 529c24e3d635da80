package celery_test

import (
	"errors"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// Only some of RabbitMQ's 404 errors say that a queue is missing. The others say that its node is down or slow.
func TestAnswersAboutQueues(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		code    int
		missing bool
		down    bool
		access  bool
	}{
		"NOT_FOUND - no queue 'q' in vhost '/'":                                                              {404, true, false, false},
		"NOT_FOUND - no exchange 'q' in vhost '/'":                                                           {404, true, false, false},
		"NOT_FOUND - home node 'rabbit@b' of durable queue 'no queue ' in vhost '/' is down or inaccessible": {404, false, true, false},
		"NOT_FOUND - failed to perform operation on queue 'q' in vhost '/' due to timeout":                   {404, false, true, false},
		"NOT_FOUND - vhost '/' is down":                                                                      {404, false, true, false},
		"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'":                  {405, false, true, false},
		"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/'":                   {406, false, true, false},
		"ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'u'":                   {403, false, false, true},
		"INTERNAL_ERROR": {541, false, false, false},
	} {
		err := celery.OfQueue("q", fmt.Errorf("asking: %w", &amqp.Error{Code: tc.code, Reason: reason}))
		_, down := errors.AsType[*celery.QueueDownError](err)
		_, access := errors.AsType[*celery.QueueAccessError](err)
		if down != tc.down || access != tc.access || celery.IsMissing(err) != tc.missing || celery.IsOfQueue(err) != (down || access) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if err := celery.OfQueue("q", amqp.ErrClosed); celery.IsOfQueue(err) {
		t.Error(err)
	}
}

// A joined error is of queues if each part is.
func TestJoinedErrorsOfQueues(t *testing.T) {
	t.Parallel()
	a, b := &celery.QueueDownError{Queue: "a"}, &celery.RejectedError{Queue: "b"}
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{errors.Join(a, fmt.Errorf("b: %w", b)), true},
		{fmt.Errorf("all: %w", errors.Join(a, nil, b)), true},
		{errors.Join(a, amqp.ErrClosed), false},
		{errors.Join(a, nil), true},
		{nil, false},
		{fmt.Errorf("%w: %w", celery.ErrNotSent, a), false},
	} {
		if got := celery.IsOfQueue(tc.err); got != tc.want {
			t.Errorf("%v: %v", tc.err, got)
		}
	}
}

// An exclusive queue of another connection exists, but can't be observed. Other queues can.
func TestQueueOfAnotherConnection(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	if _, err := ch.QueueDeclare("locked", true, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	testenv.Declare(t, ch, "free", nil)
	q := inspector(t, parsed.Broker(t, env.URL), env.ManagementURL, celery.InspectorOptions{})
	p := publisher(t, parsed.Broker(t, env.URL), celery.PublisherOptions{})
	for range 2 {
		if l, err := q.Length(deadline(t), "locked", 0); !celery.IsOfQueue(err) {
			t.Errorf("%+v, %v", l, err)
		}
		if err := p.DeclareQueue(deadline(t), "locked"); !celery.IsOfQueue(err) {
			t.Error(err)
		}
		length(t, q, "free", 0)
		if err := p.DeclareQueue(deadline(t), "free"); err != nil {
			t.Error(err)
		}
	}
}
