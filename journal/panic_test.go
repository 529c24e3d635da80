package journal

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/ledger"
)

// faultyStore panics at the visits of one origin.
type faultyStore struct {
	Store
	guilty string
}

func (s faultyStore) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	return s.Store.UpdateVisitStats(ctx, keys, func(known ledger.KnownVisits) ledger.VisitChanges {
		for _, key := range keys {
			if key.URL == s.guilty {
				panic("what is this?")
			}
		}
		return change(known)
	})
}

// A panic in one visit doesn't end the client: the record is set aside with the reason, and the others are
// applied.
func TestPanicsAreSetAside(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	var values [][]byte
	for _, url := range []string{"https://a", "https://b", "https://c"} {
		values = append(values, record(map[string]any{"origin": url}))
	}
	s.produce(0, values...)
	o := s.options()
	o.Store = faultyStore{s.store, "https://b"}
	if n := s.run(o); n != 3 {
		t.Errorf("%d records processed", n)
	}
	if got := strings.Join(table(t, s.dsn, "select url from origin_visit_stats order by url"), " "); got != "https://a https://c" {
		t.Errorf("visits of %s", got)
	}
	got := table(t, s.dsn, "select kind || ' ' || record_offset || ' ' || detail from scheduler_go.rejected_records")
	if len(got) != 1 || got[0] != "panic 1 a fault of the program: what is this?" {
		t.Errorf("set aside: %q", got)
	}
}

// A record whose decoding panics is set aside.
func TestRecordThatPanicsIsSetAside(t *testing.T) {
	t.Parallel()
	c, _, err := New(Options{Brokers: []string{"unused:1"}, GroupID: "x", Store: testenv.Open(t, testenv.Database(t)), Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	c.decoder = nil
	b := newBatch(0)
	c.decode(b, &kgo.Record{Value: record(nil)})
	if b.records != 1 || len(b.visits) != 0 || len(b.undecoded) != 1 || b.undecoded[0].Kind != KindPanic {
		t.Errorf("%+v", b)
	}
}
