package origins_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/msgpack"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

const (
	soakParts = 6
	soakQueue = "soak"

	// These happen each second, for any number of origins: as with 300 million origins, of which listers
	// find one in ten changed each day, and each is visited once in 100 days.
	soakListed = 347
	soakVisits = 35
)

// soak is a database with schedule-recurrent and journal-client at work.
type soak struct {
	*benchWorld
	queue   *amqp.Channel
	journal *kgo.Client
	daemons []*exec.Cmd
}

// BenchmarkSoak runs a lister, schedule-recurrent, workers and journal-client in six parts of
// SWH_BENCH_SOAK (5m) each, by the number of origins (SWH_BENCH_SIZES; SWH_BENCH_DATABASE). A snapshot is
// held from the second part to the last but one. After each part it prints the work and its cost, the sizes
// and dead rows of tables, and the daemons' memory. It reports the work of the last part.
func BenchmarkSoak(b *testing.B) {
	part := bench.Part(b)
	for _, size := range benchSizes(b) {
		b.Run(fmt.Sprint("origins=", size), func(b *testing.B) {
			s := newSoak(b, size)
			reader, err := pgx.Connect(b.Context(), s.dsn)
			if err != nil {
				b.Fatal(err)
			}
			for n := 1; n <= soakParts; n++ {
				switch n {
				case 2:
					_, err = reader.Exec(b.Context(), "begin isolation level repeatable read; select from listed_origins limit 1")
				case soakParts:
					err = reader.Close(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
				before := s.totals(b)
				done := s.work(b, part)
				fmt.Fprintf(os.Stderr, "part %d: %s", n, s.describe(b, part, before, done))
				b.ReportMetric(float64(len(done.listings)*soakListed)/part.Seconds(), "listed/s")
				b.ReportMetric(float64(done.visits)/part.Seconds(), "visits/s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// newSoak starts the daemons.
func newSoak(b *testing.B, origins int) *soak {
	b.Helper()
	mq, prefix := testenv.RabbitMQ(b), testenv.Journal(b, 1)
	dsn := benchDatabase
	if dsn == "" {
		dsn = testenv.PythonDatabase(b)
	}
	testenv.Migrate(b, dsn, migrate.Options{})
	s := &soak{benchWorld: newBenchWorld(b, dsn, origins), queue: testenv.Channel(b, mq.URL)}
	s.exec(b, `insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', $1, 1000)
		on conflict (type) do update set backend_name = excluded.backend_name, max_queue_length = excluded.max_queue_length`, soakQueue)
	if _, err := s.queue.QueueDeclare(soakQueue, true, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	var err error
	if s.journal, err = kgo.NewClient(kgo.SeedBrokers(testenv.Kafka(b)...), kgo.DefaultProduceTopic(prefix+".origin_visit_status")); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.journal.Close)
	program, config := bench.Programs(b)[0], bench.ConfigFile(b, s.dsn, mq.URL, "queue_full_backoff: 2",
		fmt.Sprintf("journal: {brokers: [%s], group_id: %q, prefix: %q}", strings.Join(testenv.Kafka(b), ","), prefix, prefix))
	for _, daemon := range []string{"schedule-recurrent", "journal-client"} {
		cmd := program.Command(config, daemon)
		bench.Start(b, cmd)
		s.daemons = append(s.daemons, cmd)
	}
	return s
}

// soakWork is the work of a part of a soak.
type soakWork struct {
	listings []float64 // milliseconds of each
	visits   int
}

// work lists origins and visits those in the queue, each second.
func (s *soak) work(b *testing.B, lasting time.Duration) (done soakWork) {
	b.Helper()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for end := time.Now().Add(lasting); time.Now().Before(end); <-second.C {
		listed := s.random(b, soakListed, "true")
		done.listings = append(done.listings, ms(func() { s.list(b, listed) }))
		var visits []*kgo.Record
		for len(visits) < soakVisits {
			message, ok, err := s.queue.Get(soakQueue, true)
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			visits = append(visits, s.visitOf(b, message.Body))
		}
		if err := s.journal.ProduceSync(b.Context(), visits...).FirstErr(); err != nil {
			b.Fatal(err)
		}
		done.visits += len(visits)
	}
	return done
}

// visitOf returns the journal's record of a visit with a change, for a message's origin.
func (s *soak) visitOf(b *testing.B, body []byte) *kgo.Record {
	b.Helper()
	var message [3]json.RawMessage // positional arguments, keyword arguments, and Celery's options
	var kwargs struct{ URL string }
	err := json.Unmarshal(body, &message)
	if err == nil {
		err = json.Unmarshal(message[1], &kwargs)
	}
	if err != nil {
		b.Fatal(err)
	}
	v := msgpack.AppendText(msgpack.AppendText(msgpack.AppendMap(nil, 6), "origin"), kwargs.URL)
	v = msgpack.AppendInt(msgpack.AppendText(v, "visit"), 1)
	v = msgpack.AppendText(msgpack.AppendText(v, "type"), "git")
	v = msgpack.AppendText(msgpack.AppendText(v, "status"), "full")
	v = msgpack.AppendTime(msgpack.AppendText(v, "date"), time.Now())
	return &kgo.Record{Value: msgpack.AppendBytes(msgpack.AppendText(v, "snapshot"), fmt.Appendf(nil, "%020d", s.r.Uint64()))}
}

// soakTotals are totals since the start, and current sizes of tables.
type soakTotals struct {
	wal, pages int64   // bytes, page accesses
	active     float64 // milliseconds of statements
	pending    int64   // changes of candidates
	tables     []soakTable
}

type soakTable struct {
	Name                          string
	Changed, Dead, Bytes, Indexes int64
}

func (s *soak) totals(b *testing.B) (t soakTotals) {
	b.Helper()
	err := s.store.Pool().QueryRow(b.Context(), `select (pg_current_wal_lsn() - '0/0')::bigint, blks_hit + blks_read, active_time
		from pg_stat_database where datname = current_database()`).Scan(&t.wal, &t.pages, &t.active)
	if err != nil {
		b.Fatal(err)
	}
	if t.pending, err = s.store.CandidateBacklog(b.Context(), 10_000_000); err != nil {
		b.Fatal(err)
	}
	t.tables = testenv.Rows[soakTable](b, s.store.Pool(), `select relname, n_tup_ins + n_tup_upd + n_tup_del, n_dead_tup, pg_relation_size(relid), pg_indexes_size(relid)
		from pg_stat_user_tables where relname in ('listed_origins', 'origin_visit_stats', 'candidates', 'candidate_changes', 'work') order by relname`)
	return t
}

// describe returns a text on the work of a part.
func (s *soak) describe(b *testing.B, part time.Duration, before soakTotals, done soakWork) string {
	b.Helper()
	now := s.totals(b)
	aSecond := func(n float64) float64 { return n / part.Seconds() }
	slices.Sort(done.listings)
	var text strings.Builder
	fmt.Fprintf(&text, "%.0f listed/s, %.0f visits/s; a listing took %.0f ms (median), %.0f at most; each second %.0f ms of statements, %.1f MB of WAL, %.0f pages; %d changes pending;",
		aSecond(float64(len(done.listings)*soakListed)), aSecond(float64(done.visits)), done.listings[len(done.listings)/2], done.listings[len(done.listings)-1],
		aSecond(now.active-before.active), aSecond(float64(now.wal-before.wal)/1e6), aSecond(float64(now.pages-before.pages)), now.pending)
	for _, daemon := range s.daemons {
		memory, _ := bench.Memory(b, daemon)
		fmt.Fprintf(&text, " %s %.0f MiB", daemon.Args[len(daemon.Args)-1], memory)
	}
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\ntable\tchanges/s\tdead rows\tMB\tindexes\t\n")
	for i, table := range now.tables {
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%.1f\t%.1f\t\n", table.Name, aSecond(float64(table.Changed-before.tables[i].Changed)), table.Dead,
			float64(table.Bytes)/1e6, float64(table.Indexes)/1e6)
	}
	t.Flush()
	return text.String()
}
