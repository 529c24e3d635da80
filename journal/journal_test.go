package journal

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// visitsOf returns values of one visit for each of n origins.
func visitsOf(n, day int) [][]byte {
	values := make([][]byte, n)
	for i := range values {
		values[i] = visitOf(i, day, nil)
	}
	return values
}

// Bad records are set aside with their places and stop nothing, even one in the middle of good ones that
// only PostgreSQL refuses.
func TestBadRecordsAreSetAside(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	// Too long for the index, and too random to be compressed into it.
	long := "https://example.org/"
	for i := range 2000 {
		long += fmt.Sprintf("%x", uint32(i)*2654435761)
	}
	s.produce(0, visitsOf(10, 0)...)
	s.produce(0, record(map[string]any{"origin": long}))
	s.produce(0, visitsOf(10, 1)...)
	s.produce(0,
		[]byte("rubbish"),
		record(nil)[:20],
		record(map[string]any{"metadata": make([]byte, 10<<20)}),
		record(map[string]any{"origin": "https://example.org/\x00\xff"}),
		record(map[string]any{"date": timestamp12(lastSecond+1, 0)}),
		record(map[string]any{"status": "\x00"}),
	)
	s.produce(0, visitsOf(10, 2)...)

	var logs testenv.Buffer
	registry := prometheus.NewRegistry()
	o := s.options()
	o.Log, o.Registry = logs.Logger(), registry
	if got := s.run(o); got != 37 {
		t.Errorf("%d records processed, want 37", got)
	}
	want := []string{"0/10 refused", "0/21 malformed", "0/22 malformed", "0/23 too_large", "0/24 bad_text", "0/25 bad_date", "0/26 bad_text"}
	if diff := cmp.Diff(want, table(t, s.dsn, rejectedQuery)); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
	for _, row := range s.stats() {
		if !strings.Contains(row, `"successive_visits": 3`) {
			t.Errorf("not all three visits were applied: %s", row)
		}
	}
	if n := strings.Count(logs.String(), "journal record set aside"); n != 5 {
		t.Errorf("%d lines logged, want one for each of 5 kinds", n)
	}
	wantMetrics := `
# HELP swh_scheduler_journal_records_total Journal records that are done with, by what became of them.
# TYPE swh_scheduler_journal_records_total counter
swh_scheduler_journal_records_total{outcome="applied"} 30
swh_scheduler_journal_records_total{outcome="ignored"} 0
swh_scheduler_journal_records_total{outcome="rejected"} 7
swh_scheduler_journal_records_total{outcome="skipped"} 0
`
	wantMetrics += `
# HELP swh_scheduler_visits_total Visits that ended, by visit type and outcome: eventful, uneventful (made in vain), failed, not_found.
# TYPE swh_scheduler_visits_total counter
swh_scheduler_visits_total{outcome="eventful",visit_type="git"} 10
swh_scheduler_visits_total{outcome="uneventful",visit_type="git"} 20
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(wantMetrics), "swh_scheduler_journal_records_total", "swh_scheduler_visits_total"); err != nil {
		t.Error(err)
	}
}

// After a crash between the transaction and the commit of the offsets, the next member reads records again.
// They change nothing, and bad ones are not stored twice.
func TestReplayAfterACrashChangesNothing(t *testing.T) {
	t.Parallel()
	mixed := model.DefaultVisitRules
	mixed.DisableAfterMixed = 4
	for name, rules := range map[string]Rules{"the Python scheduler's rules": {}, "failures keep the date": {FailuresKeepDate: true}, "mixed failures disable": {Visits: &mixed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 1)
			for day := range 5 {
				var visits [][]byte
				for origin := range 50 {
					status := []string{"full", "failed", "not_found"}[(day+origin)%7%3]
					visits = append(visits, visitOf(origin, day, map[string]any{"status": status}))
				}
				s.produce(0, append(visits, []byte("rubbish"))...)
			}
			o := s.options()
			o.Rules = rules
			s.run(o)
			stats, rejected := s.stats(), table(t, s.dsn, rejectedQuery)
			failures := table(t, s.dsn, failuresQuery)
			if recorded := len(failures) > 0; recorded != (rules.FailuresKeepDate || rules.Visits != nil) {
				t.Errorf("%d failures are recorded", len(failures))
			}
			s.setCommitted(0, 100) // as if the later offsets had not been committed
			if got := s.run(o); got != 155 {
				t.Errorf("%d records were read again, want 155", got)
			}
			if diff := cmp.Diff(stats, s.stats()); diff != "" {
				t.Errorf("stats (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(failures, table(t, s.dsn, failuresQuery)); diff != "" {
				t.Errorf("failures (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(rejected, table(t, s.dsn, rejectedQuery)); diff != "" {
				t.Errorf("rejected (-before +after):\n%s", diff)
			}
		})
	}
}

// failingStore ends the member after its transaction.
type failingStore struct {
	Store
	crash func()
}

func (s failingStore) UpdateVisitStats(ctx context.Context, origins []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	err := s.Store.UpdateVisitStats(ctx, origins, change)
	s.crash()
	return errors.Join(err, errors.New("crashed"))
}

// Offsets are committed after the transaction, never before. If a member ends right after its transaction,
// its records are read again.
func TestOffsetsAreCommittedAfterTheTransaction(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(20, 0)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := s.options()
	o.Store = failingStore{s.store, cancel}
	c, _, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if processed, err := c.Run(ctx); processed != 0 || err != nil {
		t.Errorf("processed %d, error %v", processed, err)
	}
	before := s.stats()
	if len(before) != 20 {
		t.Errorf("the transaction wrote %d stats, want 20", len(before))
	}
	if committed, err := s.committed(t.Context()); err != nil || len(committed) != 0 {
		t.Errorf("offsets %v were committed, error %v", committed, err)
	}
	if got := s.run(s.options()); got != 20 {
		t.Errorf("%d records were read again, want 20", got)
	}
	if diff := cmp.Diff(before, s.stats()); diff != "" {
		t.Errorf("stats (-before +after):\n%s", diff)
	}
}

// The journal client doesn't change last_scheduled, which the runner writes at the same time.
func TestLastScheduledIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	execute(t, s.dsn, `insert into origin_visit_stats (url, visit_type, last_scheduled)
		values ('https://example.org/0000', 'git', '2024-02-03 04:05:06+00')`)
	s.produce(0, visitsOf(2, 0)...)
	o := s.options()
	o.Store = meanwhile{s.store, func() {
		execute(t, s.dsn, `update origin_visit_stats set last_scheduled = '2024-06-07 08:09:10+00' where url = 'https://example.org/0000';
			insert into origin_visit_stats (url, visit_type, last_scheduled) values ('https://example.org/0001', 'git', '2024-06-07 08:09:10+00')
			on conflict (url, visit_type) do nothing`)
	}}
	s.run(o)
	for _, row := range s.stats() {
		if !strings.Contains(row, `"last_scheduled": "2024-06-07T08:09:10+00:00"`) || !strings.Contains(row, `"last_visit": "2024-01-01T12:00:00+00:00"`) {
			t.Errorf("last_scheduled or last_visit is lost: %s", row)
		}
	}
}

// meanwhile runs a function before the first batch.
type meanwhile struct {
	Store
	do func()
}

func (s meanwhile) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	s.do()
	return s.Store.UpdateVisitStats(ctx, keys, change)
}

// Two members share partitions and origins, and join and leave while records arrive. Each visit counts
// exactly once, and the last one wins.
func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	const partitions, origins, days = 4, 40, 60
	s := newStream(t, partitions)
	o := s.options()
	o.OnEOF = EOFContinue

	stopFirst := s.start(o)
	var stopSecond func() int64
	for day := range days {
		// All visits of an origin come through one partition: in order.
		for partition := range int32(partitions) {
			var values [][]byte
			for origin := int(partition); origin < origins; origin += partitions {
				values = append(values, visitOf(origin, day, nil))
			}
			s.produce(partition, values...)
		}
		switch day {
		case days / 4:
			stopSecond = s.start(o)
		case days / 2:
			stopFirst()
			stopFirst = s.start(o)
		case 3 * days / 4:
			stopSecond()
		}
	}
	s.awaitVisits(origins, days)
	s.awaitCommitted(origins * days)
	stopFirst()
}

// Records of the same new origins come through different partitions to different members. There is no
// deadlock, no visit is lost, and the later visit wins.
func TestMembersShareOrigins(t *testing.T) {
	t.Parallel()
	const origins, days = 300, 20
	s := newStream(t, 2)
	for day := range days {
		s.produce(int32(day%2), visitsOf(origins, day)...)
	}
	o := s.options()
	o.OnEOF = EOFContinue
	stopFirst, stopSecond := s.start(o), s.start(o)
	last := at(days - 1).Format(`"last_visit": "2006-01-02T15:04:05+00:00"`)
	s.awaitCommitted(origins * days)
	rows := s.stats()
	if len(rows) != origins {
		t.Errorf("%d origins, want %d", len(rows), origins)
	}
	for _, row := range rows {
		if !strings.Contains(row, last) {
			t.Errorf("the last visit did not win: %s", row)
		}
	}
	stopFirst()
	stopSecond()
}

// An unreachable database is retried and logged once. No visit is lost.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	proxy, store := s.proxiedStore()
	var logs testenv.Buffer
	o := s.options()
	o.OnEOF, o.Log, o.Store = EOFContinue, logs.Logger(), store

	stop := s.start(o)
	s.produce(0, visitsOf(10, 0)...)
	testenv.Becomes(t, "visits that are applied", 10, func() int { return len(s.stats()) })
	proxy.Cut()
	s.produce(0, visitsOf(10, 1)...)
	testenv.Shows(s.t, "applying visits failed; will be tried again", logs.String)
	s.produce(0, visitsOf(10, 2)...)
	proxy.Restore()
	s.awaitCommitted(30)
	if got := stop(); got != 30 {
		t.Errorf("%d records processed, want 30", got)
	}
	for _, row := range s.stats() {
		if !strings.Contains(row, `"successive_visits": 3`) {
			t.Errorf("a visit is lost or counted twice: %s", row)
		}
	}
	if n := strings.Count(logs.String(), "applying visits failed; will be tried again"); n != 1 {
		t.Errorf("the outage was logged %d times", n)
	}
}

// While one member's database is unreachable, a rebalance doesn't wait for it. Another member takes over
// its partition and the current batch.
func TestRebalanceDuringADatabaseOutage(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	proxy, through := s.proxiedStore()
	store := &countingStore{Store: through}
	var logs testenv.Buffer
	o := s.options()
	o.OnEOF, o.Log, o.Store = EOFContinue, logs.Logger(), store
	stop := s.start(o)
	proxy.Cut()
	s.produce(0, visitsOf(10, 0)...)
	testenv.Shows(s.t, "applying visits failed; will be tried again", logs.String)
	second := s.options()
	second.OnEOF = EOFContinue
	second.ConsumerSettings = map[string]string{"group.instance.id": "one"} // it joins first and gets the partition
	s.start(second)
	s.awaitCommitted(10) // by the second
	if got := len(s.stats()); got != 10 {
		t.Errorf("%d stats, want 10", got)
	}
	// The first member now has no records. It reports the outage until it could apply visits.
	tries := store.tries.Load()
	testenv.Becomes(t, "it tries again without records", true, func() bool { return store.tries.Load() > tries+1 })
	if strings.Contains(logs.String(), "works again") {
		t.Errorf("it works again while the database is away:\n%s", logs.String())
	}
	proxy.Restore()
	testenv.Shows(t, "applying visits works again", logs.String)
	if got := stop(); got != 0 {
		t.Errorf("the member without a database processed %d records", got)
	}
}

// countingStore counts the calls of UpdateVisitStats.
type countingStore struct {
	Store
	tries atomic.Int64
}

func (c *countingStore) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	c.tries.Add(1)
	return c.Store.UpdateVisitStats(ctx, keys, change)
}

// Connections to Kafka break while records arrive. No record is skipped.
func TestKafkaOutage(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	proxy := testenv.Proxy(t, s.brokers[0])
	o := s.options()
	o.OnEOF = EOFContinue
	c, _, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.startClient(through(c, proxy))
	const days = 6
	for day := range days {
		s.produce(int32(day%2), visitsOf(10, day)...)
		if day%2 == 0 {
			proxy.Cut()
		} else {
			proxy.Restore()
			s.awaitCommitted(int64(10 * (day + 1)))
		}
	}
	last := at(days - 1).Format(`"last_visit": "2006-01-02T15:04:05+00:00"`)
	for _, row := range s.stats() {
		if !strings.Contains(row, last) {
			t.Errorf("a visit is lost: %s", row)
		}
	}
}

// stop_after_objects counts the same records as the Python scheduler: those with a value.
func TestStopAfterObjects(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(5, 0)...)
	s.produce(0, nil, record(map[string]any{"status": "created"}), []byte("rubbish"))
	s.produce(0, visitsOf(20, 1)...)
	o := s.options()
	o.OnEOF, o.StopAfterObjects = EOFContinue, 10
	if got := s.run(o); got != 10 {
		t.Errorf("%d records processed, want 10", got)
	}
	if committed, err := s.committed(t.Context()); err != nil || committed[0] != 11 {
		t.Errorf("committed %v, error %v; want offset 11", committed, err)
	}
}

func TestOnEOF(t *testing.T) {
	t.Parallel()
	t.Run("stop ends on an empty topic", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, 3)
		if got := s.run(s.options()); got != 0 {
			t.Errorf("%d records processed", got)
		}
	})
	t.Run("stop reads all partitions to their ends, and the next run what is new", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, 3)
		s.produce(0, visitsOf(10, 0)...)
		s.produce(2, visitsOf(10, 1)...)
		if got := s.run(s.options()); got != 20 {
			t.Errorf("%d records processed, want 20", got)
		}
		s.produce(1, visitsOf(5, 2)...)
		if got := s.run(s.options()); got != 5 {
			t.Errorf("%d records processed, want 5", got)
		}
	})
	t.Run("restart reads again from the start", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, 2)
		s.produce(0, visitsOf(10, 0)...)
		s.produce(1, visitsOf(10, 1)...)
		o := s.options()
		o.OnEOF, o.StopAfterObjects = EOFRestart, 35
		c, _, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		c.restartAfter = 0
		if got, err := c.Run(t.Context()); got != 35 || err != nil {
			t.Errorf("%d records processed, error %v; want 35", got, err)
		}
	})
}

// A new group begins where auto_offset_reset says.
func TestAutoOffsetReset(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(10, 0)...)
	o := s.options()
	o.AutoOffsetReset, o.GroupID = Latest, s.prefix+".latest"
	if got := s.run(o); got != 0 {
		t.Errorf("latest: %d records processed, want 0", got)
	}
	o.AutoOffsetReset, o.GroupID = Earliest, s.prefix+".earliest"
	if got := s.run(o); got != 10 {
		t.Errorf("earliest: %d records processed, want 10", got)
	}
}

// If retention has deleted the records at the committed offsets, the client reads from the oldest ones
// left.
func TestRecordsDeletedByRetention(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(10, 0)...)
	o := s.options()
	o.OnEOF, o.StopAfterObjects = EOFContinue, 2
	s.run(o)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: s.topic, At: 6})
	if responses, err := s.admin.DeleteRecords(t.Context(), offsets); err != nil || responses.Error() != nil {
		t.Fatal(err, responses.Error())
	}
	if got := s.run(s.options()); got != 4 {
		t.Errorf("%d records processed, want 4", got)
	}
}

// If the group's offset is beyond the end, as after a recreation of the topic, the client starts by the
// setting. It is not at the end.
func TestOffsetBeyondTheEnd(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(4, 0)...)
	o := s.options()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: s.topic, At: 100})
	if responses, err := s.admin.CommitOffsets(t.Context(), o.GroupID, offsets); err != nil || responses.Error() != nil {
		t.Fatal(err, responses.Error())
	}
	if got := s.run(o); got != 4 {
		t.Errorf("%d records processed, want 4", got)
	}
}

// The client waits for a missing topic and logs that once, or returns an error with the topic's name.
func TestMissingTopic(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	var logs testenv.Buffer
	o := s.options()
	o.Prefix, o.Log, o.OnEOF = s.prefix+".late", logs.Logger(), EOFContinue
	s.topic = o.Prefix + "." + objectType
	strict := o
	strict.FailIfMissing = true
	c, _, err := New(strict)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), s.topic+" does not exist") {
		t.Errorf("got %v", err)
	}
	var processed atomic.Int64
	o.Progress = func(n, _ int64) { processed.Store(n) }
	stop := s.start(o)
	const waiting = "waiting for the topic"
	testenv.Shows(t, waiting, logs.String)
	s.createTopic(s.topic, 1)
	s.produce(0, visitsOf(3, 0)...)
	testenv.Becomes(t, "processed records", 3, processed.Load)
	stop()
	if n := strings.Count(logs.String(), waiting); n != 1 {
		t.Errorf("%d lines say that it waits, want 1", n)
	}
}

// With create_topics, the client creates the topics as the Python scheduler does.
func TestCreateTopics(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	python := exec.CommandContext(t.Context(), testenv.Python(t), append([]string{"-c", `
import sys
from swh.journal.client import get_journal_client
for privileged in (False, True):
    get_journal_client("kafka", brokers=sys.argv[2:], group_id=sys.argv[1], prefix=sys.argv[1] + (".p" if privileged else ""),
        object_types=["origin_visit_status"], privileged=privileged, create_topics=True).close()`, s.prefix + ".theirs"}, s.brokers...)...)
	if out, err := python.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := s.options()
	o.CreateTopics = true
	for _, o.Privileged = range []bool{false, true} {
		o.Prefix = s.prefix + ".ours"
		if o.Privileged {
			o.Prefix += ".p"
		}
		if got := s.run(o); got != 0 {
			t.Errorf("%d records processed of a new topic", got)
		}
	}
	topics := func(of string) map[string]string {
		found := map[string]string{}
		details, err := s.admin.ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for topic, d := range details {
			if rest, ok := strings.CutPrefix(topic, s.prefix+of); ok {
				t.Cleanup(func() { _, _ = s.admin.DeleteTopic(context.WithoutCancel(t.Context()), topic) })
				found[rest] = fmt.Sprintf("%d partitions, %d copies", len(d.Partitions), d.Partitions.NumReplicas())
			}
		}
		return found
	}
	theirs := topics(".theirs")
	if diff := cmp.Diff(theirs, topics(".ours")); diff != "" || len(theirs) != 2 {
		t.Errorf("topics (-Python +ours):\n%s", diff)
	}
}

// The client prefers the privileged topic only if the setting asks for it and the topic exists.
func TestPrivilegedTopic(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	o := s.options()
	o.Privileged = true
	s.produce(0, visitsOf(1, 0)...)
	if got := s.run(o); got != 1 {
		t.Errorf("without a privileged topic: %d records, want 1", got)
	}
	s.topic = s.prefix + "_privileged." + objectType
	s.createTopic(s.topic, 1)
	s.produce(0, visitsOf(2, 1)...)
	if got := s.run(o); got != 2 {
		t.Errorf("with a privileged topic: %d records, want 2", got)
	}
}

// The client waits for brokers that are unreachable at start, and logs that once.
func TestKafkaMissingAtStart(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	proxy := testenv.Proxy(t, s.brokers[0])
	proxy.Cut()
	var logs testenv.Buffer
	o := s.options()
	o.Brokers, o.Log = []string{proxy.Addr}, logs.Logger()
	s.produce(0, visitsOf(3, 0)...)
	var processed atomic.Int64
	o.Progress = func(n, _ int64) { processed.Store(n) }
	stop := s.start(o)
	testenv.Shows(s.t, "Kafka is not reachable", logs.String)
	proxy.Restore()
	testenv.Becomes(t, "processed records", 3, processed.Load)
	if n := strings.Count(logs.String(), "Kafka is not reachable"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	stop()
}

// A member stops on request while Kafka or the database is unreachable.
func TestStopsWhileServicesAreAway(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	proxy := testenv.Proxy(t, s.brokers[0])
	proxy.Cut()
	var logs testenv.Buffer
	o := s.options()
	o.Brokers, o.Log = []string{proxy.Addr}, logs.Logger()
	stop := s.start(o)
	testenv.Shows(s.t, "Kafka is not reachable", logs.String)
	if got := stop(); got != 0 {
		t.Errorf("%d records processed", got)
	}
}

// A static member that restarts gets its partitions back without a rebalance.
func TestStaticMembership(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(3, 0)...)
	o := s.options()
	o.ConsumerSettings = map[string]string{"group.instance.id": "one", "session.timeout.ms": "300000"}
	s.run(o)
	groups, err := s.admin.DescribeGroups(t.Context(), s.prefix)
	if err != nil {
		t.Fatal(err)
	}
	members := groups[s.prefix].Members
	if len(members) != 1 || members[0].InstanceID == nil || *members[0].InstanceID != "one" {
		t.Fatalf("the member left the group: %+v", members)
	}
	s.produce(0, visitsOf(3, 1)...)
	start := time.Now()
	if got := s.run(o); got != 3 {
		t.Errorf("%d records processed, want 3", got)
	}
	if took := time.Since(start); took > testTimeout {
		t.Errorf("the restart took %s: it waited for the old session to end", took)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	good := Options{Brokers: []string{"localhost:9092"}, GroupID: "group", Store: &db.Store{}}
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string // part of the error; "" for none
	}{
		"good":                {func(*Options) {}, ""},
		"no brokers":          {func(o *Options) { o.Brokers = nil }, "journal.brokers"},
		"no group":            {func(o *Options) { o.GroupID = "" }, "journal.group_id"},
		"no store":            {func(o *Options) { o.Store = nil }, "store"},
		"a batch below 0":     {func(o *Options) { o.BatchSize = -1 }, "batch_size"},
		"a stop below 0":      {func(o *Options) { o.StopAfterObjects = -1 }, "stop_after_objects"},
		"an odd end":          {func(o *Options) { o.OnEOF = "halt" }, "on_eof"},
		"an odd start":        {func(o *Options) { o.AutoOffsetReset = "middle" }, "auto_offset_reset"},
		"a setting that errs": {func(o *Options) { o.ConsumerSettings = map[string]string{"ssl.cipher.suites": "x"} }, "ssl.cipher.suites"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			tc.change(&o)
			_, _, err := New(o)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for size, want := range map[int]int{0: 0, 200: 1, minBatchLimit: 0} {
		o := good
		o.BatchSize = size
		if _, warnings, err := New(o); len(warnings) != want || err != nil {
			t.Errorf("batch_size %d: %q, %v", size, warnings, err)
		}
	}
}
