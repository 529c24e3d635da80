package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/postgres"
)

// exception is an error in the form of the Python scheduler's server: a Python exception. Its clients recognise some
// by class (StaleData, UnknownPolicy) and raise the others as a RemoteException that shows class and arguments.
type exception struct {
	class  string
	module string // "" is builtins
	args   []string
	status int  // HTTP status; 0 is 500
	server bool // the error is the server's, not the client's
	denied bool // the client lacks a role, or its role excludes such arguments
}

const statusTooLarge = http.StatusRequestEntityTooLarge

func (x *exception) Error() string { return x.class + ": " + x.message() }

// message is str of the exception.
func (x *exception) message() string {
	args := make([]string, len(x.args))
	for i, arg := range x.args {
		args[i] = brief(arg)
	}
	return strings.Join(args, " ")
}

// maxErrorText is the maximum length in bytes of a text that an error quotes.
const maxErrorText = 2000

// brief returns a text, or the beginning of one that is too long for an error.
func brief(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}

// briefError is an error whose text is cut if it is too long for a line of the log.
type briefError struct{ error }

func (e briefError) Error() string { return brief(e.error.Error()) }
func (e briefError) Unwrap() error { return e.error }

// quotable returns the text that an error shows of a value of a request or of another error.
func quotable(value any) any {
	switch v := value.(type) {
	case string:
		return brief(v)
	case []byte:
		return v[:min(len(v), maxErrorText/4)] // as numbers
	case error:
		return brief(v.Error())
	case *big.Int, []any, dict:
		return typeName(value)
	}
	return value
}

// fault returns the origin of the error, as a class of HTTP statuses. The status itself is that of the Python
// server, which answers 500 to wrong arguments, too.
func (x *exception) fault() string {
	if x.server || x.status == http.StatusServiceUnavailable {
		return "5xx"
	}
	return "4xx"
}

func (x *exception) httpStatus() int { return cmp.Or(x.status, http.StatusInternalServerError) }

// write writes the exception as the Python scheduler does: a plain dict, without tag. The traceback is empty, as
// ours would be of no use to a client.
func (x *exception) write(e encoder) {
	e.openDict()
	e.key("type")
	e.text(x.class)
	e.key("module")
	e.text(cmp.Or(x.module, "builtins"))
	e.key("args")
	e.openList(len(x.args))
	for _, arg := range x.args {
		e.text(brief(arg))
	}
	e.closeList()
	e.key("message")
	e.text(x.message())
	e.key("traceback")
	e.openList(0)
	e.closeList()
	e.closeDict()
}

func newException(class, format string, args ...any) *exception {
	for i := range args {
		args[i] = quotable(args[i])
	}
	return &exception{class: class, args: []string{fmt.Sprintf(format, args...)}}
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

// psycopgError is the exception of an error of PostgreSQL.
func psycopgError(class, format string, args ...any) *exception {
	x := newException(class, format, args...)
	x.module = "psycopg.errors"
	return x
}

// attrsError is an error of the checks of the Python scheduler's model.
func attrsError(class, message string) *exception {
	return &exception{class: class, module: "attrs_strict._error", args: []string{message}}
}

var errNoJSON = errors.New("a column of type jsonb holds no JSON")

// httpError is one of the exceptions of the Python scheduler's HTTP library.
func httpError(status int, class, description string) *exception {
	return &exception{class: class, module: "werkzeug.exceptions", args: []string{description}, status: status}
}

// exceptionOf returns the Python scheduler's exception for an error of a call. internal means that the exception has
// no details: the cause is for the log. No exception holds a password or the text of a query.
func exceptionOf(err error) (x *exception, internal bool) {
	if x, ok := errors.AsType[*exception](err); ok {
		return x, false
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && !refused {
		x := postgresException(pg)
		return x, x.server
	}
	switch {
	case errors.Is(err, model.ErrStaleData):
		return schedulerException("StaleData", "Stale data; Lister state not updated"), false
	case errors.Is(err, model.ErrUnknownTaskType), errors.Is(err, model.ErrUnknownLister):
		return psycopgError("ForeignKeyViolation", "%s", err), false
	case postgres.IsUnreachable(err) || postgres.TimedOut(err):
		return &exception{
			class: "OperationalError", module: "psycopg", status: http.StatusServiceUnavailable, server: true,
			args: []string{"the database cannot be reached"},
		}, true
	}
	x = newException("Exception", "internal error; the server's log says more")
	x.server = true
	return x, true
}

// schedulerException is an exception that the Python scheduler's client raises as it is.
func schedulerException(class, message string) *exception {
	return &exception{class: class, module: "swh.scheduler.exc", args: []string{message}, status: http.StatusBadRequest}
}

// postgresException returns the exception that psycopg raises for an error of the
// server, without the place of the error, which is query text.
func postgresException(pg *pgconn.PgError) *exception {
	message := brief(pg.Message)
	if pg.Detail != "" {
		message += "\nDETAIL:  " + brief(pg.Detail)
	}
	x := &exception{class: psycopgErrors[pg.Code], module: "psycopg.errors", args: []string{message}}
	base := cmp.Or(psycopgBases[pg.Code[:min(2, len(pg.Code))]], "DatabaseError")
	if x.class == "" {
		x.class, x.module = base, "psycopg"
	}
	x.server = base != "DataError" && base != "IntegrityError" // values that the client sent
	const queryCanceled = "57014"
	if base == "OperationalError" && pg.Code != queryCanceled || pg.Code == postgres.ReadOnly {
		x.status = http.StatusServiceUnavailable // its clients try again
	}
	return x
}

// psycopgErrors are psycopg's names of the errors that calls can meet.
var psycopgErrors = map[string]string{
	"2201W": "InvalidRowCountInLimitClause", "2202H": "InvalidTablesampleArgument",
	"22001": "StringDataRightTruncation", "22003": "NumericValueOutOfRange",
	"22007": "InvalidDatetimeFormat", "22008": "DatetimeFieldOverflow", "22021": "CharacterNotInRepertoire",
	"22P02": "InvalidTextRepresentation", "22P05": "UntranslatableCharacter", "23502": "NotNullViolation",
	"23503": "ForeignKeyViolation", "23505": "UniqueViolation", "23514": "CheckViolation", postgres.ReadOnly: "ReadOnlySqlTransaction",
	"3F000": "InvalidSchemaName", "40001": "SerializationFailure", "40P01": "DeadlockDetected", "42501": "InsufficientPrivilege",
	"42883": "UndefinedFunction", "42P01": "UndefinedTable", "53300": "TooManyConnections",
	"54000": "ProgramLimitExceeded", "55P03": "LockNotAvailable", "57014": "QueryCanceled",
	"57P01": "AdminShutdown", "57P03": "CannotConnectNow",
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
