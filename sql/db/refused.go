package db

import (
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/service"
)

// RefusedError is the error for a value that PostgreSQL refuses, and would refuse again: it does not
// fit the tables, their constraints or the functions that their triggers call. It is also the error
// for one that met a fault of the program, a *service.PanicError.
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

// Refused wraps an error of an RPC server's database in a RefusedError.
func Refused(err error) error { return &RefusedError{err: err} }

// refused wraps err in a RefusedError if it is about the data. Any other error
// (connections, resources, locks, privileges, a missing table) is about the state of
// the service, and waiting or an operator can cure it.
func refused(err error) error {
	switch sqlstateClass(err) {
	case "20", // case not found
		"21", // cardinality
		"22", // data: division by zero, out of range, characters
		"23", // constraints
		"27", // trigger
		"44", // check option of a view
		"54", // program limits
		"P0": // raised by a function
		return &RefusedError{SQLState: sqlstate(err), err: err}
	}
	return err
}

// Bisect calls write, which is one transaction, with the items from first up to end. If PostgreSQL
// refuses a value among them, it writes each half by itself, and so on, and calls setAside with an
// item that is refused alone. Any other error ends it; what was written before stays.
func Bisect(first, end int, write func(first, end int) error, setAside func(i int, err *RefusedError)) error {
	err := write(first, end)
	refused, ok := errors.AsType[*RefusedError](err)
	switch {
	case !ok || first == end:
		return err
	case end-first == 1:
		setAside(first, refused)
		return nil
	}
	middle := first + (end-first)/2
	if err := Bisect(first, middle, write, setAside); err != nil {
		return err
	}
	return Bisect(middle, end, write, setAside)
}

// IsAway reports whether the database cannot be reached or the connection was lost. Any
// other error is an answer of the database.
func IsAway(err error) bool {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch sqlstateClass(err) {
		case "08", "53", "57": // connection; resources; shut down or killed by an administrator
			return true
		}
		return sqlstate(err) == "25P03" // idle in a transaction for too long
	}
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// retryLostRaces runs a transaction again, a few times, after a deadlock, for instance with the Python
// runner, which locks tasks in no fixed order, or after errStatsAppeared.
func retryLostRaces(transaction func() error) (err error) {
	for range 10 {
		if err = transaction(); sqlstateClass(err) != "40" && !errors.Is(err, errStatsAppeared) { // 40: transaction rollback
			break
		}
	}
	return err
}

// sqlstate is PostgreSQL's code of an error, or "".
func sqlstate(err error) string {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(pgErr.Code) != 5 {
		return ""
	}
	return pgErr.Code
}

// sqlstateClass is the first two characters of the error's SQLSTATE, or "".
func sqlstateClass(err error) string { return sqlstate(err)[:min(2, len(sqlstate(err)))] }
