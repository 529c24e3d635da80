package testenv

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"swh-scheduler/sql/migrate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// A test's database is empty, its own, and dropped afterwards.
func TestPostgresIsolatesTests(t *testing.T) {
	t.Parallel()
	var first string
	t.Run("first", func(t *testing.T) {
		first = Postgres(t)
		if _, err := connect(t, first).Exec(t.Context(), "create table mine ()"); err != nil {
			t.Fatal(err)
		}
		second := Postgres(t)
		var tables int
		err := connect(t, second).QueryRow(t.Context(),
			"select count(*) from pg_tables where schemaname = 'public'").Scan(&tables)
		if err != nil || tables != 0 {
			t.Errorf("a fresh database has %d tables (%v), want none", tables, err)
		}
	})
	if conn, err := pgx.Connect(t.Context(), first); err == nil {
		_ = conn.Close(t.Context())
		t.Errorf("the database is still there after its test")
	}
}

// A connection whose context has ended is closed, as it may hold a lock.
func TestOverConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	conn := connect(t, endpoint(t, postgresVar))
	cancel()
	if release(ctx, conn); !conn.IsClosed() {
		t.Error("it is kept")
	}
}

// The Python scheduler's database is that of its own commands: schema version 38.
func TestPeerDatabase(t *testing.T) {
	t.Parallel()
	for range 2 {
		var version int
		err := connect(t, PythonDatabase(t)).QueryRow(t.Context(), "select max(version) from dbversion").Scan(&version)
		if err != nil || version != 38 {
			t.Errorf("dbversion = %d (%v), want 38", version, err)
		}
	}
}

// Our database is migrated, and each test has its own copy.
func TestDatabase(t *testing.T) {
	t.Parallel()
	for range 2 {
		dsn := Database(t)
		report, err := migrate.Run(t.Context(), dsn, migrate.Options{})
		if err != nil || !report.Nothing() {
			t.Errorf("Migrate = %+v, %v; want nothing left to do", report, err)
		}
	}
}

// A test's virtual host is usable, and deleted afterwards.
func TestRabbitMQIsolatesTests(t *testing.T) {
	t.Parallel()
	var broker Broker
	t.Run("first", func(t *testing.T) {
		broker = RabbitMQ(t)
		queue, err := Channel(t, broker.URL).QueueDeclare("queue", true, false, false, false, nil)
		if err != nil || queue.Messages != 0 {
			t.Errorf("declare a queue: %+v, %v", queue, err)
		}
	})
	if conn, err := amqp.Dial(broker.URL); err == nil {
		_ = conn.Close()
		t.Errorf("the virtual host is still there after its test")
	}
}

// A new topic accepts a record in each partition at once.
func TestTopicIsReady(t *testing.T) {
	t.Parallel()
	const partitions = 3
	topic := Topic(t, partitions)
	client, err := kgo.NewClient(kgo.SeedBrokers(Kafka(t)...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for partition := range int32(partitions) {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")}).FirstErr(); err != nil {
			t.Errorf("partition %d: %v", partition, err)
		}
	}
}

// The Python has Celery and the Python scheduler's journal client.
func TestPythonHasThePeer(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), Python(t), "-c",
		"import celery, swh.scheduler.celery_backend.config, swh.journal.client").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A script answers line by line, and ends when it is stopped.
func TestScript(t *testing.T) {
	t.Parallel()
	s := StartScript(t, append(os.Environ(), "GREETING=hello"), "-c", `
import json, os, sys
print(os.environ["GREETING"], flush=True)
for line in sys.stdin:
    print(json.dumps([json.loads(line)]), flush=True)`)
	if line := s.Line(t); line != "hello" {
		t.Errorf("it says %q", line)
	}
	for _, question := range []string{"é", strings.Repeat("x", 1<<20)} {
		var answer []string
		if s.Ask(t, question, &answer); len(answer) != 1 || answer[0] != question {
			t.Errorf("%.20q is answered by %.20q", question, answer)
		}
	}
	if answer := s.Say(t, "1"); answer != "[1]" {
		t.Errorf("it answers %q", answer)
	}
	s.Stop()
}

// A cut proxy drops open connections and refuses new ones. A restored one accepts clients again at the same address.
func TestProxyCutsAndRestores(t *testing.T) {
	t.Parallel()
	proxy := Proxy(t, echoServer(t))
	say := func(conn net.Conn) error {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write([]byte("ping")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 4))
		return err
	}
	for range 3 {
		conn, err := net.Dial("tcp", proxy.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := say(conn); err != nil {
			t.Errorf("through the proxy: %v", err)
		}
		proxy.Cut()
		var timeout net.Error
		if err := say(conn); err == nil || (errors.As(err, &timeout) && timeout.Timeout()) {
			t.Errorf("through a cut proxy: %v, want the connection reset", err)
		}
		_ = conn.Close()
		if conn, err := net.Dial("tcp", proxy.Addr); err == nil {
			_ = conn.Close()
			t.Errorf("a cut proxy accepts connections")
		}
		proxy.Restore()
	}
}

// A silent proxy forwards nothing and ends nothing. New connections work, unless they are silenced, too.
func TestProxyFallsSilent(t *testing.T) {
	t.Parallel()
	proxy := Proxy(t, echoServer(t))
	speaks := func(conn net.Conn, wait time.Duration) bool {
		t.Helper()
		if _, err := conn.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		_, err := io.ReadFull(conn, make([]byte, 4))
		var timeout net.Error
		if err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
			t.Fatal(err)
		}
		return err == nil
	}
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", proxy.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	old := dial()
	if !speaks(old, time.Minute) {
		t.Fatal("silent before it should be")
	}
	proxy.Silence(false)
	if speaks(old, 100*time.Millisecond) || !speaks(dial(), time.Minute) {
		t.Error("open connections speak, or new ones are silent")
	}
	proxy.Silence(true)
	if speaks(dial(), 100*time.Millisecond) {
		t.Error("a new connection speaks")
	}
	proxy.Restore()
	if !speaks(dial(), time.Minute) {
		t.Error("silent after it was restored")
	}
}

// A proxy to a broker holds messages, which a cut loses, and the broker's confirms, which pass when they are
// released.
func TestBrokerProxyHolds(t *testing.T) {
	t.Parallel()
	broker := RabbitMQ(t)
	address, proxy := Through(t, broker.URL, BrokerProxy)
	open := func(address string) *amqp.Channel {
		t.Helper()
		channel := Channel(t, address)
		if err := channel.Confirm(false); err != nil {
			t.Fatal(err)
		}
		return channel
	}
	direct, through := open(broker.URL), open(address)
	length := func() int {
		t.Helper()
		queue, err := direct.QueueDeclare("queue", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return queue.Messages
	}
	length()
	publish := func(channel *amqp.Channel) *amqp.DeferredConfirmation {
		t.Helper()
		confirm, err := channel.PublishWithDeferredConfirm("", "queue", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		return confirm
	}
	within := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(2 * time.Minute):
			t.Fatal(what)
		}
	}

	reached := proxy.Hold(Confirms, 0)
	confirm := publish(through)
	within("no confirm is held", reached)
	if n := length(); n != 1 || confirm.Acked() {
		t.Errorf("%d messages, acknowledged: %v; want 1, and its confirm held", n, confirm.Acked())
	}
	proxy.Release()
	within("no confirm comes", confirm.Done())

	reached = proxy.Hold(Publishes, 1)
	within("the first message does not pass", publish(through).Done())
	publish(through)
	within("no message is held", reached)
	proxy.Cut()
	proxy.Restore()
	within("no message passes", publish(open(address)).Done())
	if n := length(); n != 3 {
		t.Errorf("%d messages, want 3: one was lost by the cut", n)
	}
}

func echoServer(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	return listener.Addr().String()
}

// A proxy to PostgreSQL holds the answer to a commit. A cut loses the answer, but the transaction is committed. Other
// connections and other answers pass.
func TestDatabaseProxyHoldsCommits(t *testing.T) {
	t.Parallel()
	direct := Postgres(t)
	through, way := Through(t, direct, DatabaseProxy)
	conn, beside := connect(t, through), connect(t, direct)
	held := way.Hold(Commits, 1)
	for _, table := range []string{"first", "second"} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "create table "+table+" ()"); err != nil {
			t.Fatal(err)
		}
		go func() {
			if table == "second" {
				<-held
				way.Cut()
			}
		}()
		if err := tx.Commit(t.Context()); err == nil == (table == "second") {
			t.Errorf("commit of the %s table: %v", table, err)
		}
		var there bool
		if err := beside.QueryRow(t.Context(), "select to_regclass($1) is not null", table).Scan(&there); err != nil || !there {
			t.Errorf("the %s table is there: %t (%v)", table, there, err)
		}
	}
}

// A slow proxy forwards data later.
func TestProxyIsSlow(t *testing.T) {
	t.Parallel()
	through, way := Through(t, Postgres(t), Proxy)
	conn := connect(t, through)
	for _, by := range []time.Duration{100 * time.Millisecond, 0} {
		way.Slow(by)
		began := time.Now()
		if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*by {
			t.Errorf("slow by %s each way, a statement took %s", by, took)
		}
	}
}

// withDatabase keeps the credentials of a URL.
func TestWithDatabaseKeepsCredentials(t *testing.T) {
	t.Setenv(postgresVar, "postgresql://user:p%40ss@db.example:5432/postgres?sslmode=disable")
	got, err := url.Parse(withDatabase(t, "other"))
	if err != nil {
		t.Fatal(err)
	}
	if password, _ := got.User.Password(); password != "p@ss" || got.Path != "/other" || got.RawQuery != "sslmode=disable" {
		t.Errorf("withDatabase = %v", got)
	}
}
