package journal

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/postgres"
)

// A batch is a set of decoded records that were read together, or a part of one.
type batch struct {
	// By partition: the first record, and the record after the last.
	first, next map[int32]kgo.EpochOffset

	records   int // that count as messages in the Python scheduler
	skipped   int
	visits    []Visit // in the order of arrival, until the split
	from      []place // the place of each visit's record
	undecoded []db.RejectedRecord
	faults    []*service.PanicError // panics of the program, for which records are rejected

	// The results of write.
	split    []*batch // the parts
	written  int      // in a part: the number of visits written or refused
	applied  Applied
	refused  []db.RejectedRecord
	kept     int // the number of rejected records stored, or in unstored
	unstored []unstored
}

// unstored is a rejected record that PostgreSQL refuses to store, too.
type unstored struct {
	record db.RejectedRecord
	reason error
}

// place is the place of a record.
type place struct {
	topic     string
	partition int32
	offset    int64
}

// newBatch returns an empty batch with room for visits.
func newBatch(visits int) *batch {
	return &batch{
		first: make(map[int32]kgo.EpochOffset), next: make(map[int32]kgo.EpochOffset),
		visits: make([]Visit, 0, visits), from: make([]place, 0, visits),
	}
}

// reach extends the batch to a record.
func (b *batch) reach(r *kgo.Record) {
	if _, seen := b.first[r.Partition]; !seen {
		b.first[r.Partition] = kgo.EpochOffset{Epoch: -1, Offset: r.Offset}
	}
	b.next[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
}

const (
	maxParts   = 4   // transactions that write a batch
	maxWriters = 2   // of these at the same time; each holds a copy of its rows
	partVisits = 500 // the least visits for a transaction of their own
)

var partSeed = maphash.MakeSeed()

// parts divides the batch so that some parts can be written at the same time. Each part has all visits of
// its origins. Origins are distinguished by URL only, as disabling covers all visit types of a URL.
func (b *batch) parts() []*batch {
	n := max(1, min(maxParts, len(b.visits)/partVisits))
	partOf, sizes := make([]uint8, len(b.visits)), make([]int, n)
	for i, v := range b.visits {
		partOf[i] = uint8(maphash.String(partSeed, v.URL) % uint64(n))
		sizes[partOf[i]]++
	}
	parts := make([]*batch, n)
	for i, size := range sizes {
		parts[i] = &batch{applied: make(Applied), visits: make([]Visit, 0, size), from: make([]place, 0, size)}
	}
	for i, v := range b.visits {
		p := parts[partOf[i]]
		p.visits, p.from = append(p.visits, v), append(p.from, b.from[i])
	}
	return parts
}

// write writes the batch to the database, in transactions of at most size. After an error it can be called
// again and continues. If an applied visit is not known to be applied, the second try ignores it.
func (b *batch) write(ctx context.Context, store Store, rules Rules, size *bulk.BatchSize) error {
	if b.split == nil {
		b.split = b.parts()
		b.visits, b.from = nil, nil
	}
	writers, partsCtx := errgroup.WithContext(ctx)
	writers.SetLimit(maxWriters)
	for _, p := range b.split {
		writers.Go(func() error { return p.writeAll(partsCtx, store, rules, size) })
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	b.applied, b.refused = make(Applied), nil
	for _, p := range b.split {
		b.applied.add(p.applied)
		b.refused = append(b.refused, p.refused...)
		b.faults, p.faults = append(b.faults, p.faults...), nil
	}
	rejected := slices.Concat(b.undecoded, b.refused)
	var err error
	b.kept, err = size.Write(b.kept, len(rejected), func(first, end int) error {
		return service.Within(ctx, writeTimeout, func(ctx context.Context) error { return store.RejectRecords(ctx, rejected[first:end]) })
	}, func(i int, err *postgres.RefusedError) { b.unstored = append(b.unstored, unstored{rejected[i], err}) })
	return err
}

// writeAll writes the visits of a part, except those with a value that PostgreSQL refuses.
func (b *batch) writeAll(ctx context.Context, store Store, rules Rules, size *bulk.BatchSize) (err error) {
	b.written, err = size.Write(b.written, len(b.visits), func(first, end int) error {
		return service.Within(ctx, writeTimeout, func(ctx context.Context) error {
			applied, err := rules.Write(ctx, store, b.visits[first:end])
			if err == nil {
				b.applied.add(applied)
			}
			return err
		})
	}, func(i int, err *postgres.RefusedError) {
		kind := KindRefused
		if fault, ok := errors.AsType[*service.PanicError](err); ok {
			kind, b.faults = KindPanic, append(b.faults, fault)
		}
		b.refused = append(b.refused, rejection(b.from[i], reject(kind, "%s", err)))
	})
	return err
}

// Write applies visits, in their order, to the stats of their origins in one transaction. It returns the
// visits that changed something. It returns a *postgres.RefusedError if PostgreSQL refuses a value.
func (r Rules) Write(ctx context.Context, store Store, visits []Visit) (applied Applied, err error) {
	err = store.UpdateVisitStats(ctx, originsOf(visits), func(known ledger.KnownVisits) ledger.VisitChanges {
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
