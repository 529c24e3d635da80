package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// testTimeout bounds all waits of a test.
const testTimeout = 3 * time.Minute

// stream is a topic and a database of the test's own.
type stream struct {
	t       testing.TB
	brokers []string
	prefix  string
	topic   string
	client  *kgo.Client
	admin   *kadm.Client
	dsn     string
	store   *db.Store
}

func newStream(t testing.TB, partitions int32) *stream {
	t.Helper()
	return newStreamAt(t, testenv.Kafka(t), partitions, 1)
}

// newStreamAt returns a stream on other brokers, with a number of replicas.
func newStreamAt(t testing.TB, brokers []string, partitions int32, copies int16) *stream {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &stream{t: t, brokers: brokers, prefix: "test." + rand.Text(), client: client, admin: kadm.NewClient(client)}
	s.topic = s.prefix + "." + objectType
	s.createTopicCopied(s.topic, partitions, copies)

	s.dsn = testenv.Database(t)
	s.store = testenv.Open(t, s.dsn)
	return s
}

func (s *stream) createTopic(topic string, partitions int32) {
	s.t.Helper()
	s.createTopicCopied(topic, partitions, 1)
}

func (s *stream) createTopicCopied(topic string, partitions int32, copies int16) {
	s.t.Helper()
	large := "20971520"
	created, err := s.admin.CreateTopic(s.t.Context(), partitions, copies, map[string]*string{"max.message.bytes": &large}, topic)
	if err != nil || created.Err != nil {
		s.t.Fatalf("create topic %s: %v %v", topic, err, created.Err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if _, err := s.admin.DeleteTopic(ctx, topic); err != nil {
			s.t.Errorf("delete topic %s: %v", topic, err)
		}
	})
	testenv.Becomes(s.t, "topic "+topic+" is ready", true, func() bool {
		ends, err := s.admin.ListEndOffsets(s.t.Context(), topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions)
	})
}

// produce writes values to a partition, in order.
func (s *stream) produce(partition int32, values ...[]byte) {
	s.t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, value := range values {
		records[i] = &kgo.Record{Topic: s.topic, Partition: partition, Value: value}
	}
	if err := s.client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatalf("produce: %v", err)
	}
}

// produceBatch writes one value as a compressed batch of any uncompressed size.
func (s *stream) produceBatch(partition int32, value []byte) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(256<<20), kgo.BrokerMaxWriteBytes(512<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(s.t.Context(), &kgo.Record{Topic: s.topic, Partition: partition, Value: value}).FirstErr(); err != nil {
		s.t.Fatalf("produce: %v", err)
	}
}

// options are those of a member of the group "group" that stops at the end.
func (s *stream) options() Options {
	return Options{
		Brokers: s.brokers, GroupID: s.prefix, Prefix: s.prefix, Store: s.store,
		OnEOF: EOFStop, Rules: noFudge, Log: testLog(s.t),
	}
}

// run runs a member to its end and returns the number of processed records.
func (s *stream) run(o Options) int64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	c, _, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	processed, err := c.Run(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if ctx.Err() != nil {
		s.t.Fatalf("still running after %s, with %d records processed", testTimeout, processed)
	}
	return processed
}

// start runs a member in the background; stop ends it normally.
func (s *stream) start(o Options) (stop func() int64) {
	s.t.Helper()
	c, _, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.startClient(c)
}

func (s *stream) startClient(c *Client) (stop func() int64) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var processed int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if processed, err = c.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	}()
	stop = sync.OnceValue(func() int64 {
		cancel()
		select {
		case <-done:
		case <-time.After(testTimeout):
			s.t.Error("a member did not stop")
		}
		return processed
	})
	s.t.Cleanup(func() { stop() })
	return stop
}

// through routes all of a member's connections to Kafka through the proxy, also those to the addresses that
// brokers advertise.
func through(c *Client, proxy *testenv.Toxic) *Client {
	address := proxy.Addr // Restore sets it again
	c.kafka = append(c.kafka, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}))
	return c
}

// proxiedStore opens the stream's database through a proxy.
func (s *stream) proxiedStore() (*testenv.Toxic, *db.Store) {
	s.t.Helper()
	dsn, proxy := testenv.Through(s.t, s.dsn, testenv.Proxy)
	return proxy, testenv.Open(s.t, dsn)
}

// awaitCommitted waits until the group's offsets add up to a number of records.
func (s *stream) awaitCommitted(records int64) {
	s.t.Helper()
	testenv.Becomes(s.t, "committed records", fmt.Sprint(records), func() string {
		committed, err := s.committed(s.t.Context())
		if err != nil {
			return err.Error() // of a cluster that has lost a node
		}
		total := int64(0)
		for _, offset := range committed {
			total += offset
		}
		return fmt.Sprint(total)
	})
}

// committed returns the group's offset by partition.
func (s *stream) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := s.admin.FetchOffsets(ctx, s.prefix)
	if err != nil {
		return nil, err
	}
	all := make(map[int32]int64)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == s.topic {
			all[o.Partition] = o.At
		}
	})
	return all, nil
}

// setCommitted moves the group's offsets; the group must have no members.
func (s *stream) setCommitted(partition int32, offset int64) {
	s.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: s.topic, Partition: partition, At: offset, LeaderEpoch: -1})
	testenv.Becomes(s.t, "setting the group's offsets", nil, func() error {
		responses, err := s.admin.CommitOffsets(s.t.Context(), s.prefix, offsets)
		return errors.Join(err, responses.Error())
	})
}

// table returns a query's rows as text.
func table(t testing.TB, dsn, query string) []string {
	t.Helper()
	conn := testenv.Connect(t, dsn)
	defer conn.Close(context.WithoutCancel(t.Context()))
	testenv.Exec(t, conn, "set time zone 'UTC'")
	return testenv.Column[string](t, conn, query)
}

func execute(t testing.TB, dsn, statements string) {
	t.Helper()
	conn := testenv.Connect(t, dsn)
	defer conn.Close(context.WithoutCancel(t.Context()))
	testenv.Exec(t, conn, statements)
}

const (
	statsQuery    = "select to_jsonb(s)::text from origin_visit_stats s order by url collate \"C\", visit_type collate \"C\""
	originsQuery  = "select url || ' ' || visit_type || ' ' || enabled || ' ' || last_seen from listed_origins order by url, visit_type, lister_id"
	rejectedQuery = "select format('%s/%s %s', partition, record_offset, kind) from scheduler_go.rejected_records order by partition, record_offset"
	failuresQuery = "select format('%s %s %s %s', url, visit_type, last_failure, in_a_row) from scheduler_go.visit_failures order by 1"
)

func (s *stream) stats() []string { return table(s.t, s.dsn, statsQuery) }

// testLog logs to the test while it runs.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// visitOf returns the value of a record of one of many origins.
func visitOf(origin, day int, changes map[string]any) []byte {
	all := map[string]any{"origin": fmt.Sprintf("https://example.org/%04d", origin), "date": at(day)}
	for key, v := range changes {
		all[key] = v
	}
	return record(all)
}
