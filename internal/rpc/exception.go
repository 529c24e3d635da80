package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/scheduler"
)

// exception is an error as the peer's server answers it: a Python exception. Its
// clients know some by class (StaleData, UnknownPolicy) and raise the others as
// a RemoteException that shows class and arguments.
type exception struct {
	class  string
	module string // "" is builtins
	args   []any  // of text, integers or None
	status int    // HTTP status; 0 is 500
}

const statusTooLarge = http.StatusRequestEntityTooLarge

func (x *exception) Error() string { return x.class + ": " + x.message() }

// message is str of the exception.
func (x *exception) message() string {
	switch len(x.args) {
	case 0:
		return ""
	case 1:
		return fmt.Sprint(x.args[0])
	}
	return fmt.Sprint(x.args...)
}

func (x *exception) httpStatus() int {
	if x.status == 0 {
		return http.StatusInternalServerError
	}
	return x.status
}

// write writes the exception as the peer does: a plain dict, without tag. The
// traceback is empty, ours would tell a client nothing.
func (x *exception) write(e encoder) {
	module := x.module
	if module == "" {
		module = "builtins"
	}
	e.openDict(5)
	e.key("type")
	e.text(x.class)
	e.key("module")
	e.text(module)
	e.key("args")
	list(e, x.args, func(e encoder, arg any) { e.text(fmt.Sprint(arg)) })
	e.key("message")
	e.text(x.message())
	e.key("traceback")
	e.openList(0)
	e.closeList()
	e.closeDict()
}

func newException(class, format string, args ...any) *exception {
	return &exception{class: class, args: []any{fmt.Sprintf(format, args...)}}
}

func typeError(format string, args ...any) *exception {
	return newException("TypeError", format, args...)
}

func valueError(format string, args ...any) *exception {
	return newException("ValueError", format, args...)
}

func attributeError(format string, args ...any) *exception {
	return newException("AttributeError", format, args...)
}

func assertionError(format string, args ...any) *exception {
	return newException("AssertionError", format, args...)
}

var errNoJSON = errors.New("a column of type jsonb holds no JSON")

// httpError is one of the exceptions of the peer's HTTP library.
func httpError(status int, class, description string) *exception {
	return &exception{class: class, module: "werkzeug.exceptions", args: []any{description}, status: status}
}

// exceptionOf turns an error of a call into what the peer would answer, and says
// with internal that it tells the client nothing: the cause is for the log. No
// exception holds a password or the text of a query.
func exceptionOf(err error) (x *exception, internal bool) {
	if x, ok := errors.AsType[*exception](err); ok {
		return x, false
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		x := postgresException(pg)
		return x, x.httpStatus() >= 500
	}
	switch {
	case errors.Is(err, scheduler.ErrStaleData):
		return schedulerException("StaleData", "Stale data; Lister state not updated"), false
	case errors.Is(err, scheduler.ErrUnknownTaskType), errors.Is(err, scheduler.ErrUnknownLister):
		return &exception{class: "ForeignKeyViolation", module: "psycopg.errors", args: []any{err.Error()}}, false
	case unreachable(err):
		return &exception{
			class: "OperationalError", module: "psycopg", status: http.StatusServiceUnavailable,
			args: []any{"the database cannot be reached"},
		}, true
	}
	return newException("Exception", "internal error; the server's log says more"), true
}

// schedulerException is an exception that the peer's client raises as it is.
func schedulerException(class, message string) *exception {
	return &exception{class: class, module: "swh.scheduler.exc", args: []any{message}, status: http.StatusBadRequest}
}

// unreachable says that the database didn't answer, or not in time.
func unreachable(err error) bool {
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	ended := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
	return refused || network || ended || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

// postgresException is the exception that psycopg raises for an error of the
// server. Of what the server says it leaves out where: that is query text.
func postgresException(pg *pgconn.PgError) *exception {
	message := pg.Message
	if pg.Detail != "" {
		message += "\nDETAIL:  " + pg.Detail
	}
	x := &exception{class: psycopgErrors[pg.Code], module: "psycopg.errors", args: []any{message}}
	base := "DatabaseError"
	if len(pg.Code) == 5 {
		if b, ok := psycopgBases[pg.Code[:2]]; ok {
			base = b
		}
	}
	if x.class == "" {
		x.class, x.module = base, "psycopg"
	}
	const queryCanceled = "57014"
	if base == "OperationalError" && pg.Code != queryCanceled {
		x.status = http.StatusServiceUnavailable // its clients try again
	}
	return x
}

// psycopgErrors are psycopg's names of the errors that calls can meet.
var psycopgErrors = map[string]string{
	"2201W": "InvalidRowCountInLimitClause",
	"2202H": "InvalidTablesampleArgument",
	"22001": "StringDataRightTruncation",
	"22003": "NumericValueOutOfRange",
	"22007": "InvalidDatetimeFormat",
	"22008": "DatetimeFieldOverflow",
	"22021": "CharacterNotInRepertoire",
	"22P02": "InvalidTextRepresentation",
	"22P05": "UntranslatableCharacter",
	"23502": "NotNullViolation",
	"23503": "ForeignKeyViolation",
	"23505": "UniqueViolation",
	"23514": "CheckViolation",
	"40001": "SerializationFailure",
	"40P01": "DeadlockDetected",
	"42501": "InsufficientPrivilege",
	"42883": "UndefinedFunction",
	"42P01": "UndefinedTable",
	"53300": "TooManyConnections",
	"54000": "ProgramLimitExceeded",
	"55P03": "LockNotAvailable",
	"57014": "QueryCanceled",
	"57P01": "AdminShutdown",
	"57P03": "CannotConnectNow",
}

// psycopgBases are the classes of DB-API by class of SQLSTATE.
var psycopgBases = map[string]string{
	"08": "OperationalError", "0A": "NotSupportedError", "20": "ProgrammingError", "21": "ProgrammingError",
	"22": "DataError", "23": "IntegrityError", "24": "InternalError", "25": "InternalError",
	"26": "OperationalError", "27": "OperationalError", "28": "OperationalError", "40": "OperationalError",
	"42": "ProgrammingError", "44": "ProgrammingError", "53": "OperationalError", "54": "OperationalError",
	"55": "OperationalError", "57": "OperationalError", "58": "OperationalError",
	"F0": "OperationalError", "P0": "InternalError", "XX": "InternalError",
}
