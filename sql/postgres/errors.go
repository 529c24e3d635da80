package postgres

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/service"
)

// RefusedError is the error for a value that PostgreSQL refuses and would refuse again: it violates the
// tables, their constraints or the functions of their triggers. It is also the error for a value that made
// the program panic, as a *service.PanicError.
type RefusedError struct {
	SQLState string
	err      error
}

func (e *RefusedError) Error() string {
	if _, fault := errors.AsType[*service.PanicError](e.err); fault {
		return e.err.Error()
	}
	return "refused by PostgreSQL: " + e.err.Error()
}
func (e *RefusedError) Unwrap() error { return e.err }

// Refused wraps an error in a RefusedError.
func Refused(err error) error { return &RefusedError{err: err} }

// AsRefused wraps err in a RefusedError if it is about the data. Other errors (connections, resources,
// locks, privileges, a missing table) are about the state of the service. A retry or an operator can remedy
// those.
func AsRefused(err error) error {
	switch SQLStateClass(err) {
	case "20", // case not found
		"21", // cardinality
		"22", // data: division by zero, out of range, characters
		"23", // constraints
		"27", // trigger
		"44", // check option of a view
		"54", // program limits
		"P0": // raised by a function
		return &RefusedError{SQLState: SQLState(err), err: err}
	}
	return err
}

// IsUnreachable reports whether the database is unreachable or missing, or the connection was lost. Any other
// error is an answer of the database.
func IsUnreachable(err error) bool {
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	if _, ok := errors.AsType[*pgconn.PgError](err); ok && !connect {
		switch SQLStateClass(err) {
		case "08", "53", "57": // connection; resources; shut down or killed by an administrator
			return true
		}
		return SQLState(err) == "25P03" // idle in a transaction for too long
	}
	_, network := errors.AsType[net.Error](err)
	return network || connect || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// SQLSTATEs that several packages look for.
const (
	LockNotAvailable = "55P03" // a lock was not free within lock_timeout
	ReadOnly         = "25006" // the statement writes, on a standby or while writes are off; a failover ends that
)

// TimedOut reports whether a time limit ended a transaction: statement_timeout (or a cancel request),
// lock_timeout, or a deadline of ours.
func TimedOut(err error) bool {
	state := SQLState(err)
	return state == "57014" || state == LockNotAvailable || errors.Is(err, context.DeadlineExceeded)
}

// LostRace is the error text of a transaction that lost a race with another one and can be run again.
type LostRace string

func (e LostRace) Error() string { return string(e) }

// RetryLostRaces runs a transaction again, a few times, after a LostRace or a deadlock. The Python runner,
// for instance, locks tasks in no fixed order.
func RetryLostRaces(transaction func() error) (err error) {
	for range 10 {
		err = transaction()
		_, lost := errors.AsType[LostRace](err)
		if SQLStateClass(err) != "40" && !lost { // 40: transaction rollback
			break
		}
	}
	return err
}

// SQLState returns PostgreSQL's code of an error, or "".
func SQLState(err error) string {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(pgErr.Code) != 5 {
		return ""
	}
	return pgErr.Code
}

// SQLStateClass returns the first two characters of the error's SQLSTATE, or "".
func SQLStateClass(err error) string { return SQLState(err)[:min(2, len(SQLState(err)))] }
