package rpc

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
)

// Cancel requests with guessed keys end no statement, and other clients can still connect.
func TestDoorGuessedCancelKeys(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn)
	conn := enter(t, server, "")
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "select pg_sleep(600)")
		ended <- err
	}()
	pid := conn.PgConn().PID()
	watch := testenv.Connect(t, dsn)
	testenv.Becomes(t, "running", 1, func() int {
		return testenv.Value[int](t, watch, "select count(*)::int from pg_stat_activity where pid = $1 and state = 'active' and query like '%sleep%'", pid)
	})
	right := conn.PgConn().SecretKey()
	wrong := append([]byte(nil), right...)
	wrong[0] ^= 1
	for i := range 40 { // beyond what may start at once from one address
		key := [][]byte{{0, 0, 0, 0}, {255, 255, 255, 255}, wrong, {}, right[:1], append(right[:len(right):len(right)], 0), make([]byte, 256), make([]byte, 9000)}[i%8]
		way, err := knock(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		request := binary.BigEndian.AppendUint32(nil, uint32(12+len(key)))
		request = binary.BigEndian.AppendUint32(request, 80877102)
		_, _ = way.Write(append(binary.BigEndian.AppendUint32(request, pid), key...))
		_ = way.SetReadDeadline(time.Now().Add(testenv.Patience))
		if _, err := io.Copy(io.Discard, way); err != nil {
			t.Logf("guess %d: %v", i, err) // a reset
		}
		_ = way.Close()
	}
	select {
	case err := <-ended:
		t.Fatalf("a guessed key ended a statement: %v", err)
	default:
	}
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("the right key ends it: %v", err)
	}
	if err := enter(t, server, "").Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A message with a wrong length ends only its own session.
func TestDoorHugeLengths(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	server := serve(t, dsn)
	beside := enter(t, server, "")
	for _, length := range []uint32{0, 3, 1 << 30, 1<<31 - 1, 1<<32 - 1} {
		config := throughDoor(t, server, "")
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		way, err := conn.PgConn().Hijack()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = way.Conn.Write(append(binary.BigEndian.AppendUint32([]byte{'Q'}, length), make([]byte, 1<<20)...))
		_ = way.Conn.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, way.Conn)
		_ = way.Conn.Close()
		if err := beside.Ping(t.Context()); err != nil {
			t.Fatalf("after a length of %d: %v", length, err)
		}
	}
}
