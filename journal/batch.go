package journal

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

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

// write brings the batch to the database. It can be called again after an error,
// whatever of the batch was written before: visits that were applied are ignored
// the second time.
func (b *batch) write(ctx context.Context, store Store, rules Rules) error {
	b.applied, b.refused = 0, nil
	if err := b.writeVisits(ctx, store, rules, 0, len(b.visits)); err != nil {
		return err
	}
	return store.RejectRecords(ctx, append(b.undecoded[:len(b.undecoded):len(b.undecoded)], b.refused...))
}

// writeVisits writes the visits from first up to end in one transaction. If
// PostgreSQL refuses a value among them it writes both halves by themselves, one
// after the other, until the visit with that value is alone.
func (b *batch) writeVisits(ctx context.Context, store Store, rules Rules, first, end int) error {
	visits := b.visits[first:end]
	applied := 0
	err := store.UpdateVisitStats(ctx, originsOf(visits), func(known sql.KnownVisits) sql.VisitChanges {
		t := newTally(rules, known)
		t.apply(visits)
		applied = t.applied
		return t.changes()
	})
	if err == nil {
		b.applied += applied
		return nil
	}
	if !sql.IsRefused(err) {
		return err
	}
	if len(visits) == 1 {
		b.refused = append(b.refused, rejection(b.from[first], reject(KindRefused, "%s", err)))
		return nil
	}
	middle := first + len(visits)/2
	if err := b.writeVisits(ctx, store, rules, first, middle); err != nil {
		return err
	}
	return b.writeVisits(ctx, store, rules, middle, end)
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
