package journal

import (
	"context"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// A batch is what was read together, decoded.
type batch struct {
	records   int // that count as the peer's messages
	skipped   int
	visits    []Visit       // in the order of arrival
	from      []*kgo.Record // where each visit is from
	undecoded []sql.RejectedRecord

	// The results of write.
	applied int
	refused []sql.RejectedRecord
}

const (
	// maxLanes is how many transactions write a batch at the same time.
	maxLanes = 4
	// laneVisits is how many visits are worth a transaction of their own.
	laneVisits = 500
)

// A lane is a part of a batch with all visits of its origins, so that lanes can
// be written at the same time.
type lane struct {
	visits  []Visit
	from    []*kgo.Record
	applied int
	refused []sql.RejectedRecord
}

var laneSeed = maphash.MakeSeed()

// lanes divides the batch. Origins are told apart by their URLs alone, because
// that is how they are disabled.
func (b *batch) lanes() []*lane {
	n := max(1, min(maxLanes, len(b.visits)/laneVisits))
	lanes := make([]*lane, n)
	for i := range lanes {
		lanes[i] = &lane{}
	}
	for i, v := range b.visits {
		l := lanes[maphash.String(laneSeed, v.URL)%uint64(n)]
		l.visits, l.from = append(l.visits, v), append(l.from, b.from[i])
	}
	return lanes
}

// write brings the batch to the database. It can be called again after an error,
// whatever of the batch was written before: visits that were applied are ignored
// the second time.
func (b *batch) write(ctx context.Context, store Store, rules Rules) error {
	lanes := b.lanes()
	writers, lanesCtx := errgroup.WithContext(ctx)
	for _, l := range lanes {
		writers.Go(func() error { return l.write(lanesCtx, store, rules, 0, len(l.visits)) })
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	b.applied, b.refused = 0, nil
	for _, l := range lanes {
		b.applied += l.applied
		b.refused = append(b.refused, l.refused...)
	}
	return store.RejectRecords(ctx, append(b.undecoded[:len(b.undecoded):len(b.undecoded)], b.refused...))
}

// write writes the visits from first up to end in one transaction. If PostgreSQL
// refuses a value among them it writes both halves by themselves, one after the
// other, until the visit with that value is alone.
func (l *lane) write(ctx context.Context, store Store, rules Rules, first, end int) error {
	visits := l.visits[first:end]
	applied, err := rules.Write(ctx, store, visits)
	if err == nil {
		l.applied += applied
		return nil
	}
	if !sql.IsRefused(err) {
		return err
	}
	if len(visits) == 1 {
		l.refused = append(l.refused, rejection(l.from[first], reject(KindRefused, "%s", err)))
		return nil
	}
	middle := first + len(visits)/2
	if err := l.write(ctx, store, rules, first, middle); err != nil {
		return err
	}
	return l.write(ctx, store, rules, middle, end)
}

// Write applies visits, in their order, to the stats of their origins, in one
// transaction, and returns how many changed something. See sql.IsRefused for
// values that PostgreSQL refuses.
func (r Rules) Write(ctx context.Context, store Store, visits []Visit) (applied int, err error) {
	err = store.UpdateVisitStats(ctx, originsOf(visits), func(known sql.KnownVisits) sql.VisitChanges {
		t := newTally(r, known)
		t.apply(visits)
		applied = t.applied
		return t.changes()
	})
	return applied, err
}

// originsOf lists each origin once.
func originsOf(visits []Visit) []scheduler.OriginKey {
	seen := make(map[scheduler.OriginKey]bool, len(visits))
	keys := make([]scheduler.OriginKey, 0, len(visits))
	for _, v := range visits {
		if !seen[v.OriginKey] {
			seen[v.OriginKey] = true
			keys = append(keys, v.OriginKey)
		}
	}
	return keys
}
