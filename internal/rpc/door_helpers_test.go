package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// openDoor opens the door of a database, and closes it when the test ends, as roles are the server's.
func openDoor(t testing.TB, dsn string) {
	t.Helper()
	testenv.Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	t.Cleanup(func() {
		if _, err := migrate.Run(context.Background(), dsn, migrate.Options{Door: migrate.DoorClosed}); err != nil {
			t.Error(err)
		}
	})
}

// knock asks a server for a connection to the database. Its answer is an error, unless it is one.
func knock(ctx context.Context, server string, header ...string) (net.Conn, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return knockOn(ctx, conn, server, header...)
}

// knockOn is knock on a connection to the server, which it closes if the answer is an error.
func knockOn(ctx context.Context, conn net.Conn, server string, header ...string) (net.Conn, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+door.Path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Upgrade", door.Protocol)
	request.Header.Set("Connection", "Upgrade")
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	if err = request.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, request)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(response.Body)
		_ = conn.Close()
		return nil, fmt.Errorf("%d: %s", response.StatusCode, strings.TrimSpace(string(text)))
	}
	return &readAhead{conn, r}, nil
}

// readAhead is a connection whose answer's reader may have read more.
type readAhead struct {
	net.Conn
	r *bufio.Reader
}

func (c *readAhead) Read(p []byte) (int, error) { return c.r.Read(p) }

// throughDoor is the configuration of a connection through a server's door. keys are further ones of a DSN.
func throughDoor(t testing.TB, server, keys string, header ...string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig("host=127.0.0.1 sslmode=disable user=x dbname=y " + keys)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return knock(ctx, server, header...) }
	return config
}

// enter connects through a server's door until the test ends.
func enter(t testing.TB, server, keys string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), throughDoor(t, server, keys))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}
