package journal

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// A batch is what was read together, decoded, or a part of that.
type batch struct {
	records   int // that count as the peer's messages
	skipped   int
	visits    []Visit       // in the order of arrival
	from      []*kgo.Record // where each visit is from
	undecoded []db.RejectedRecord

	// The results of write.
	applied int
	refused []db.RejectedRecord
}

const (
	maxParts   = 4   // transactions that write a batch at the same time
	partVisits = 500 // visits that are worth a transaction of their own
)

var partSeed = maphash.MakeSeed()

// parts divides the batch, each part with all visits of its origins, so that they
// can be written at the same time. Origins are told apart by their URLs alone,
// because that is how they are disabled.
func (b *batch) parts() []*batch {
	n := max(1, min(maxParts, len(b.visits)/partVisits))
	parts := make([]*batch, n)
	for i := range parts {
		parts[i] = &batch{}
	}
	for i, v := range b.visits {
		p := parts[maphash.String(partSeed, v.URL)%uint64(n)]
		p.visits, p.from = append(p.visits, v), append(p.from, b.from[i])
	}
	return parts
}

// write writes the batch to the database. It can be called again after an error,
// whatever of the batch was written before: visits that were applied are ignored
// the second time.
func (b *batch) write(ctx context.Context, store Store, rules Rules) error {
	parts := b.parts()
	writers, partsCtx := errgroup.WithContext(ctx)
	for _, p := range parts {
		writers.Go(func() error { return p.writeAll(partsCtx, store, rules) })
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	b.applied, b.refused = 0, nil
	for _, p := range parts {
		b.applied += p.applied
		b.refused = append(b.refused, p.refused...)
	}
	return store.RejectRecords(ctx, slices.Concat(b.undecoded, b.refused))
}

// writeAll writes the visits, but for those with a value that PostgreSQL refuses.
func (b *batch) writeAll(ctx context.Context, store Store, rules Rules) error {
	return db.Bisect(0, len(b.visits), func(first, end int) error {
		applied, err := rules.Write(ctx, store, b.visits[first:end])
		if err == nil {
			b.applied += applied
		}
		return err
	}, func(i int, err *db.RefusedError) {
		b.refused = append(b.refused, rejection(b.from[i], reject(KindRefused, "%s", err)))
	})
}

// Write applies visits, in their order, to the stats of their origins, in one
// transaction, and returns how many changed something. A *db.RefusedError is about a
// value that PostgreSQL refuses.
func (r Rules) Write(ctx context.Context, store Store, visits []Visit) (applied int, err error) {
	err = store.UpdateVisitStats(ctx, originsOf(visits), func(known db.KnownVisits) db.VisitChanges {
		t := newTally(r, known)
		t.apply(visits)
		applied = t.applied
		return t.changes()
	})
	return applied, err
}

// originsOf lists each origin once.
func originsOf(visits []Visit) []model.OriginKey {
	seen := make(map[model.OriginKey]bool, len(visits))
	keys := make([]model.OriginKey, 0, len(visits))
	for _, v := range visits {
		if !seen[v.OriginKey] {
			seen[v.OriginKey] = true
			keys = append(keys, v.OriginKey)
		}
	}
	return keys
}
