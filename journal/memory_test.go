package journal

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// stuckStore blocks RejectRecords until the test releases it.
type stuckStore struct {
	Store
	stuck    chan struct{} // closed when the first batch arrives
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

// With a large lag on many partitions of large records, a client holds at most a batch and the fetches
// after it.
func TestFetchesAreBounded(t *testing.T) { // not in parallel: it measures the process's memory
	const partitions, size, each = 64, 512 << 10, 6
	s := newStream(t, partitions)
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, size)
	for range each {
		for partition := range int32(partitions) {
			_, _ = random.Read(value)
			s.produce(partition, value) // alone, as a fetch has whole batches
		}
	}
	s.checkGrowth(partitions*each, 3*maxFetchBytes)
}

// With a large lag of records that are small in Kafka, the client holds their visits and some of the next
// records, not the records themselves.
func TestRecordsAreNotHeld(t *testing.T) { // not in parallel, as above
	s := newStream(t, 1)
	s.produce(0, []byte("rubbish"))
	const batches, each = 60, 1000
	for range batches {
		s.produce(0, slices.Repeat([][]byte{record(map[string]any{"status": "created", "snapshot": nil})}, each)...)
	}
	s.checkGrowth(1+batches*each, 12<<20)
}

// A producer's batch that is small in Kafka and too large uncompressed stops its partition, but not the
// others. The error names the partition. The memory stays within the bound.
func TestBatchThatDecompressesTooFarStopsItsPartition(t *testing.T) { // not in parallel, as above
	s := newStream(t, 2)
	s.produce(0, visitsOf(1, 0)...)
	// The producer compresses at once; one record is a batch.
	s.produceBatch(0, make([]byte, 100<<20))
	s.produce(0, visitsOf(1, 1)...)
	s.produce(1, visitsOf(10, 2)...)
	runtime.GC()
	var logs testenv.Buffer
	o := s.options()
	o.Log = logs.Logger()
	peak := watchHeap(t)
	c, _, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	n, err := c.Run(ctx)
	if err == nil || n != 11 || ctx.Err() != nil {
		t.Errorf("%d records processed, want 11: %v", n, err)
	}
	want := "partition 0 of " + s.topic + " is read no further: the batch at offset 1 decompresses to more than 32 MiB; " +
		"to leave it out, stop all members of the group and set its offset of this partition to 2"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(logs.String(), want) {
		t.Errorf("error %v, want %q, and in the log:\n%s", err, want, logs.String())
	}
	most := uint64(128 << 20)
	if testenv.Race {
		most = 192 << 20 // 160 MiB instead of 112 were measured
	}
	if got := peak(); got > most {
		t.Errorf("the heap grew by %d MiB", got>>20)
	}
	s.setCommitted(0, 2) // as an operator does
	if n := s.run(s.options()); n != 1 {
		t.Errorf("%d records processed after the batch, want 1", n)
	}
}

// watchHeap returns the greatest growth of the heap in bytes, for any setting of the collector in the
// environment.
func watchHeap(t *testing.T) (peak func() uint64) {
	t.Helper()
	percent := debug.SetGCPercent(20)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	before := heap()
	var most atomic.Uint64
	stop := testenv.Run(t, func(ctx context.Context) error {
		for service.Sleep(ctx, 5*time.Millisecond) == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
		}
		return nil
	})
	return func() uint64 {
		stop()
		return max(most.Load(), before) - before
	}
}

// checkGrowth runs a member that reads a number of records. Its first batch has one that is set aside. It
// checks the growth of the heap in bytes while that write is blocked.
func (s *stream) checkGrowth(records int64, most uint64) {
	s.t.Helper()
	before := heap()
	store := stuckStore{s.store, make(chan struct{}), new(sync.Once), make(chan struct{})}
	o := s.options()
	o.Store = store
	done := make(chan int64, 1)
	go func() { done <- s.run(o) }()
	<-store.stuck
	now := heap()
	for still := time.Now(); time.Since(still) < time.Second; time.Sleep(100 * time.Millisecond) {
		if next := heap(); next > now+512<<10 {
			now, still = next, time.Now()
		}
	}
	close(store.released)
	if now > before+most {
		s.t.Errorf("the heap grew from %d MiB to %d MiB, want %d MiB more at most", before>>20, now>>20, most>>20)
	} else {
		s.t.Logf("the heap grew from %d MiB to %d MiB", before>>20, now>>20)
	}
	if n := <-done; n != records {
		s.t.Errorf("%d records processed, want %d", n, records)
	}
}

// heap returns the memory in use, without that of pools.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
