package journal

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"swh-scheduler/sql/db"
)

// stuckStore sets records aside once it is released.
type stuckStore struct {
	Store
	stuck    chan struct{} // closed when the first batch is there
	once     *sync.Once
	released chan struct{}
}

func (s stuckStore) RejectRecords(ctx context.Context, records []db.RejectedRecord) error {
	s.once.Do(func() { close(s.stuck) })
	select {
	case <-s.released:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Store.RejectRecords(ctx, records)
}

// With a large lag on many partitions of large records, a client holds a batch and the
// fetches after it, and no more than that.
func TestFetchesAreBounded(t *testing.T) { // not in parallel: it looks at the memory of the process
	const partitions, size, each = 64, 512 << 10, 6
	s := newStream(t, partitions)
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, size)
	for range each {
		for partition := range int32(partitions) {
			_, _ = random.Read(value)
			s.produce(partition, value) // alone, as a fetch takes whole batches
		}
	}
	before := heap()
	t.Logf("before: %d MiB", before>>20)
	store := stuckStore{s.store, make(chan struct{}), new(sync.Once), make(chan struct{})}
	o := s.options()
	o.Store = store
	done := make(chan int64, 1)
	go func() { done <- s.run(o) }()
	<-store.stuck
	most := uint64(0)
	for still := time.Now(); time.Since(still) < time.Second; time.Sleep(20 * time.Millisecond) {
		if now := heap(); now > most+size {
			most, still = now, time.Now()
		}
	}
	close(store.released)
	const want = maxBatchBytes + 2*maxFetchBytes
	if grown := int64(most) - int64(before); grown > want {
		t.Errorf("the heap grew by %d MiB, want %d at most", grown>>20, want>>20)
	} else {
		t.Logf("the heap grew by %d MiB", grown>>20)
	}
	if n := <-done; n != partitions*each {
		t.Errorf("%d records processed, want %d", n, partitions*each)
	}
}

// heap is the memory that is in use, without what pools keep.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
