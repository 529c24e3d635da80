package door

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// parameters are the start-up parameters that a client may set, in lower case. A session can set other parameters
// later, if its role may.
var parameters = []string{
	"application_name", "client_encoding", "datestyle", "timezone", "extra_float_digits", "intervalstyle", "options", "search_path",
	"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout",
	"tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "client_connection_check_interval", "jit",
}

// maxStartup bounds a start-up message, in bytes, as PostgreSQL does.
const maxStartup = 10_000

// maxAsked bounds how often a client may request encryption before it starts.
const maxAsked = 4

// receiveStartup returns the first message of a client, a StartupMessage or a CancelRequest. It reads no byte after
// it. It declines requests for encryption inside this connection.
func receiveStartup(client io.ReadWriter) (pgproto3.FrontendMessage, error) {
	for range maxAsked {
		packet := make([]byte, 4, 512)
		if _, err := io.ReadFull(client, packet); err != nil {
			return nil, err
		}
		length := binary.BigEndian.Uint32(packet)
		if length < 8 || length > maxStartup {
			return nil, fmt.Errorf("%w: a start-up message of %d bytes", errFrame, length)
		}
		packet = slices.Grow(packet, int(length)-4)[:length]
		if _, err := io.ReadFull(client, packet[4:]); err != nil {
			return nil, err
		}
		message, err := pgproto3.NewBackend(bytes.NewReader(packet), io.Discard).ReceiveStartupMessage()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFrame, err)
		}
		switch message.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := client.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		default:
			return message, nil
		}
	}
	return nil, errors.New("the client asks for encryptions and never starts")
}

// sessionOf returns the parameters of a session, and its unknown protocol options.
func sessionOf(start *pgproto3.StartupMessage) (session map[string]string, unknown []string, err error) {
	session = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(start.Parameters)) {
		switch lower := strings.ToLower(name); {
		case lower == "user" || lower == "database": // the server's
		case strings.HasPrefix(name, "_pq_."):
			unknown = append(unknown, name)
		case slices.Contains(parameters, lower):
			session[name] = start.Parameters[name]
		default:
			return nil, nil, fmt.Errorf("the start-up parameter %.64q can't be set through the RPC server: %s can; set others with SET", name, strings.Join(parameters, ", "))
		}
	}
	return session, unknown, nil
}

// send sends messages to a client.
func send(client net.Conn, messages ...pgproto3.BackendMessage) error {
	backend := pgproto3.NewBackend(strings.NewReader(""), client)
	for _, m := range messages {
		backend.Send(m)
	}
	return backend.Flush()
}

// fatal is an error that ends a session.
func fatal(code, format string, args ...any) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: fmt.Sprintf(format, args...)}
}

// SQLSTATEs.
const (
	codeProtocol  = "08P01" // protocol violation
	codeAway      = "08006" // connection failure
	codeNoRole    = "28000" // invalid authorization
	codeFull      = "53300" // too many connections
	codeParameter = "42704" // undefined object
	codeStopped   = "57P01" // shut down by an administrator
	codeIdle      = "57P05" // idle for too long
)
