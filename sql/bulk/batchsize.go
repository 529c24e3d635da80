package bulk

import (
	"errors"
	"sync/atomic"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/postgres"
)

// BatchSize bounds the batches of one loop by what PostgreSQL can do in time. A batch that times out (the
// server's statement_timeout or lock_timeout, or a deadline of ours) is halved at its next try, not
// repeated whole for ever. While batches as large as the bound succeed, the bound grows by an eighth each
// time. A time-out of a single item changes nothing: the item is tried again.
//
// The zero value has no bound yet. It is safe for concurrent use.
type BatchSize struct{ bound atomic.Int64 } // 0: none

// Of returns the number of items, of n, to try in one batch.
func (b *BatchSize) Of(n int) int {
	if bound := int(b.bound.Load()); bound > 0 {
		return min(n, bound)
	}
	return n
}

// Adjust adjusts the bound to the outcome of a batch of n items; n = 0 changes nothing.
func (b *BatchSize) Adjust(n int, err error) {
	bound := b.bound.Load()
	switch {
	case n == 0:
	case postgres.TimedOut(err):
		b.bound.CompareAndSwap(bound, int64(max(n/2, 1)))
	case err == nil && bound > 0 && int64(n) >= bound:
		b.bound.CompareAndSwap(bound, bound+bound/8+1)
	}
}

// Write writes the items from done up to end as Bisect does, in batches of this size. It returns the first
// item that is neither written nor set aside, also with an error.
//
// A panic of write counts as a refusal. So it ends neither the process nor, when the items come again, the
// next one. An item set aside for a panic has panicked twice, the second time alone.
func (b *BatchSize) Write(done, end int, write func(first, end int) error, setAside func(i int, err *postgres.RefusedError)) (int, error) {
	for done < end {
		n := b.Of(end - done)
		err := Bisect(done, done+n, func(first, end int) error {
			err := recovering(write, first, end)
			if err == nil {
				done = end
			}
			return err
		}, func(i int, err *postgres.RefusedError) {
			setAside(i, err)
			done = i + 1
		})
		b.Adjust(n, err)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// recovering returns a panic of write as a *postgres.RefusedError. It tries a single item a second time.
func recovering(write func(first, end int) error, first, end int) (err error) {
	tries := 1
	if end-first == 1 {
		tries = 2
	}
	for range tries {
		err = service.Recover(func() error { return write(first, end) })
		if _, panicked := errors.AsType[*service.PanicError](err); !panicked {
			return err
		}
	}
	return postgres.Refused(err)
}
