package sql

import (
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsAway reports whether an error says that the database is away: that it can't be
// reached, or that the connection was lost. Another error is its answer.
func IsAway(err error) bool {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch sqlstateClass(err) {
		case "08", "53", "57": // connection; resources; shut down or killed by an administrator
			return true
		}
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
