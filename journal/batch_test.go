package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// All visits of an origin, of any type, are in one part, in order and with their records. So no two
// transactions of a batch count visits of one origin concurrently.
func TestPartsKeepOriginsTogether(t *testing.T) {
	t.Parallel()
	const origins, rounds = 301, 10
	b := &batch{}
	for day := range rounds {
		for n := range origins {
			b.visits = append(b.visits, Visit{
				OriginKey: model.OriginKey{URL: fmt.Sprint("https://example.org/", n), VisitType: []string{"git", "hg"}[day%2]},
				Date:      at(day),
			})
			b.from = append(b.from, place{offset: int64(day*origins + n)})
		}
	}
	parts := b.parts()
	if len(parts) != maxParts {
		t.Fatalf("%d parts, want %d", len(parts), maxParts)
	}
	partOf, next := make(map[string]int), make(map[string]int)
	for i, l := range parts {
		for k, v := range l.visits {
			if part, known := partOf[v.URL]; known && part != i {
				t.Fatalf("%s is in parts %d and %d", v.URL, part, i)
			}
			partOf[v.URL] = i
			if !v.Date.Equal(at(next[v.URL])) || b.visits[l.from[k].offset].URL != v.URL {
				t.Fatalf("%s: visit of %s out of order, or not from record %d", v.URL, v.Date, l.from[k].offset)
			}
			next[v.URL]++
		}
	}
	for url, n := range next {
		if n != rounds {
			t.Errorf("%s: %d visits, want %d", url, n, rounds)
		}
	}
}

// A batch that is given up is read again from its first record in each partition. A finished batch is
// followed by the record after its last.
func TestRewindGoesToTheFirstRecords(t *testing.T) {
	t.Parallel()
	b := newBatch(0)
	for _, r := range []*kgo.Record{{Partition: 1, Offset: 7}, {Partition: 0, Offset: 3}, {Partition: 1, Offset: 8}, {Partition: 0, Offset: 5}} {
		b.reach(r)
	}
	first, next := map[int32]kgo.EpochOffset{0: {Epoch: -1, Offset: 3}, 1: {Epoch: -1, Offset: 7}}, map[int32]kgo.EpochOffset{0: {Offset: 6}, 1: {Offset: 9}}
	if diff := cmp.Diff(first, b.first) + cmp.Diff(next, b.next); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A member without records, whose batch was given up, retries with back-off until the database is back.
func TestTrialsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{Store: away{}}
		c := &Client{o: Options{Store: store}}
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(idleWait) {
			if c.canApply(t.Context()) {
				t.Fatal("visits could be applied")
			}
		}
		if n := store.tries.Load(); n < 30 || n > 150 {
			t.Errorf("%d tries in five minutes, want one in about five seconds", n)
		}
		store.Store = &once{away: model.OriginKey{URL: "none"}, written: make(map[model.OriginKey]int)}
		time.Sleep(service.DefaultMaxWait)
		if !c.canApply(t.Context()) {
			t.Error("the database is there, and visits could not be applied")
		}
	})
}

// away is a store whose database is unreachable.
type away struct{ Store }

func (away) UpdateVisitStats(context.Context, []model.OriginKey, func(ledger.KnownVisits) ledger.VisitChanges) error {
	return errors.New("away")
}

// A member is at the end once all its partitions are read to their ends; without partitions it is not.
func TestAtEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		partitions map[int32]*progress
		want       bool
	}{
		"no partitions": {nil, false},
		"one at work":   {map[int32]*progress{0: {}}, false},
		"one of two":    {map[int32]*progress{0: {eof: true}, 1: {}}, false},
		"all":           {map[int32]*progress{0: {eof: true}, 1: {eof: true}}, true},
	} {
		if got := (&member{partitions: tc.partitions}).atEnd(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A partition read again from before its end is no longer at its end. A partition whose records were only
// processed still is.
func TestReadingAgainLeavesTheEnd(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		m := &member{metrics: newMetrics(prometheus.NewRegistry(), "group"), partitions: map[int32]*progress{0: {next: 9, end: 9, eof: true}}}
		m.moveTo(map[int32]kgo.EpochOffset{0: {Offset: 3}}, again)
		if m.atEnd() == again || m.partitions[0].next != 3 {
			t.Errorf("again %v: at the end %v, next %d", again, m.atEnd(), m.partitions[0].next)
		}
	}
}

// once is a store that is unreachable for the first write of an origin.
type once struct {
	Store
	away    model.OriginKey
	mu      sync.Mutex
	written map[model.OriginKey]int
}

func (o *once) UpdateVisitStats(_ context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(keys, o.away) {
		o.away = model.OriginKey{}
		return errors.New("away")
	}
	change(ledger.KnownVisits{})
	for _, key := range keys {
		o.written[key]++
	}
	return nil
}

func (o *once) RejectRecords(context.Context, []db.RejectedRecord) error { return nil }

// A batch with a failed part is written to its end, and no visit twice.
func TestBatchGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	b, store := &batch{}, &once{away: origin, written: map[model.OriginKey]int{}}
	for i := range 2 * partVisits {
		v := failure(0)
		if i > 0 {
			v.URL = fmt.Sprint("https://example.org/", i)
		}
		b.visits, b.from = append(b.visits, v), append(b.from, place{})
	}
	visits := len(b.visits)
	var size bulk.BatchSize
	if err := b.write(t.Context(), store, noFudge, &size); err == nil {
		t.Error("it was written although the database was away")
	}
	if err := b.write(t.Context(), store, noFudge, &size); err != nil || b.applied.Total() != visits {
		t.Errorf("%d of %d visits applied, %v", b.applied.Total(), visits, err)
	}
	for key, n := range store.written {
		if n != 1 {
			t.Fatalf("%v is written %d times", key, n)
		}
	}
	if len(store.written) != visits {
		t.Errorf("%d of %d origins are written", len(store.written), visits)
	}
}

// slow is a store with slow writes that counts its callers.
type slow struct {
	Store
	mu        sync.Mutex
	now, most int
}

func (s *slow) UpdateVisitStats(context.Context, []model.OriginKey, func(ledger.KnownVisits) ledger.VisitChanges) error {
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now += n
		s.most = max(s.most, s.now)
	}
	count(+1)
	defer count(-1)
	time.Sleep(time.Second)
	return nil
}

func (s *slow) RejectRecords(context.Context, []db.RejectedRecord) error { return nil }

// If PostgreSQL refuses to store a rejected record, the batch returns it for the log, and stores the
// others.
func TestRejectedRecordsThatAreRefused(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	store := testenv.Open(t, dsn)
	testenv.Exec(t, testenv.Connect(t, dsn), `create function refuse() returns trigger language plpgsql security definer as $$
			begin if new.record_offset = 2 then raise exception 'not this one'; end if; return new; end $$;
		create trigger refuse before insert on scheduler_go.rejected_records for each row execute function refuse()`)
	b := &batch{}
	for i := range int64(4) {
		b.undecoded = append(b.undecoded, rejection(place{topic: "t", offset: i}, reject(KindPanic, "bad")))
	}
	if err := b.write(t.Context(), store, noFudge, new(bulk.BatchSize)); err != nil {
		t.Fatal(err)
	}
	if len(b.unstored) != 1 || b.unstored[0].record.Offset != 2 {
		t.Errorf("not kept: %+v, want the record at 2", b.unstored)
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.rejected_records"); n != 3 {
		t.Errorf("%d records are kept, want 3", n)
	}
}

// Only some transactions of a large batch run concurrently, as each takes memory.
func TestTransactionsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, store := &batch{}, &slow{}
		for i := range maxParts * partVisits {
			b.visits = append(b.visits, Visit{OriginKey: model.OriginKey{URL: fmt.Sprint("https://example.org/", i), VisitType: "git"}})
			b.from = append(b.from, place{})
		}
		began := time.Now()
		if err := b.write(t.Context(), store, noFudge, new(bulk.BatchSize)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); store.most != maxWriters || took != maxParts/maxWriters*time.Second {
			t.Errorf("%d transactions at once, for %s; want %d", store.most, took, maxWriters)
		}
	})
}

// The stay in the group ends at errors that the client can't recover from, and Run ends at errors that a
// retry can't overcome.
func TestFailuresOfPolls(t *testing.T) {
	t.Parallel()
	m := &member{log: slog.New(slog.DiscardHandler)}
	for name, tc := range map[string]struct {
		err             error
		fails, hopeless bool
	}{
		"nothing to read":           {context.DeadlineExceeded, false, false},
		"stopped":                   {context.Canceled, false, false},
		"records that are gone":     {&kgo.ErrDataLoss{Topic: "t"}, false, false},
		"a topic that is gone":      {kerr.UnknownTopicID, true, false},
		"another with the same id":  {fmt.Errorf("join: %w", kerr.FencedInstanceID), true, true},
		"others with other balance": {kerr.InconsistentGroupProtocol, true, true},
		"a session too long":        {kerr.InvalidSessionTimeout, true, true},
		"a group without a name":    {kerr.InvalidGroupID, true, true},
		"a rebalance":               {kerr.RebalanceInProgress, true, false},
	} {
		err := m.failure(kgo.NewErrFetch(tc.err), false)
		if (err != nil) != tc.fails || permanent(err) != tc.hopeless {
			t.Errorf("%s: ends the stay with %v, for good: %t", name, err, permanent(err))
		}
	}
}

// A record without a value is a deletion without a visit, and no fault.
func TestRecordsWithoutValueAreNoMessages(t *testing.T) {
	t.Parallel()
	c := &Client{decoder: newDecoder()}
	b := newBatch(0)
	for _, r := range []*kgo.Record{{}, {Value: record(nil)}, {Value: []byte{}}} {
		c.decode(b, r)
	}
	if b.records != 2 || len(b.visits) != 1 || len(b.undecoded) != 1 || b.skipped != 0 {
		t.Errorf("%d records: %d visits, %d set aside, %d skipped", b.records, len(b.visits), len(b.undecoded), b.skipped)
	}
}
