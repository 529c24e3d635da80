package dispatch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/ledger"
)

// outgoing returns the number of outgoing messages by queue.
func (b *bench) outgoing(t *testing.T) map[string]int {
	t.Helper()
	byQueue := make(map[string]int)
	for _, queue := range testenv.Column[string](t, b.store.Pool(), "select queue from scheduler_go.work where state = 'outgoing'") {
		byQueue[queue]++
	}
	return byQueue
}

// fill returns messages for all free slots of claims.
func fill(claims dispatch.Claims, queues []dispatch.Queue) [][]ledger.Work {
	work := make([][]ledger.Work, len(claims))
	for i, c := range claims {
		work[i], _ = messages(queues[i].Name, c.Free)
	}
	return work
}

// Claims for several queues count the slots of each, with and without a limit. A queue that can't be observed gets
// nothing and holds up no other. Either all are committed or none.
func TestClaimsTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	defer b.lock(t, "locked")()
	b.enqueue(t, "c", 1)
	woken := 0
	slots := dispatch.NewSlots(b.store, b.inspector, func() { woken++ })
	queues := []dispatch.Queue{
		{Name: "c", Limit: new(int64(4))}, {Name: "unlimited"}, {Name: "a", Limit: new(int64(5))}, {Name: "locked", Limit: new(int64(4))},
	}
	claim := func(failed error) error {
		claims, err := slots.OpenTogether(t.Context(), queues...)
		if err != nil {
			t.Fatal(err)
		}
		var free []int
		for i, c := range claims {
			if celery.IsOfQueue(c.Err) != (queues[i].Name == "locked") {
				t.Errorf("queue %s: %v", queues[i].Name, c.Err)
			}
			free = append(free, c.Free)
		}
		if diff := cmp.Diff([]int{3, dispatch.MaxClaim, 5, 0}, free); diff != "" {
			t.Errorf("free slots (-want +got):\n%s", diff)
		}
		return claims.Commit(t.Context(), fill(claims, queues), failed)
	}
	failed := errors.New("a task type fails")
	if err := claim(failed); !errors.Is(err, failed) || woken > 0 {
		t.Errorf("%v, woken %d times", err, woken)
	}
	if diff := cmp.Diff(map[string]int{"c": 1}, b.outgoing(t)); diff != "" {
		t.Errorf("after the claims that failed (-want +got):\n%s", diff)
	}
	if err := claim(nil); err != nil || woken != 1 {
		t.Errorf("%v, woken %d times", err, woken)
	}
	if diff := cmp.Diff(map[string]int{"c": 4, "a": 5, "unlimited": dispatch.MaxClaim}, b.outgoing(t)); diff != "" {
		t.Errorf("after the claims (-want +got):\n%s", diff)
	}
}

// Processes that claim for several queues at once, each in an order of its own, neither overfill one nor wait for each
// other for ever.
func TestClaimsTogetherAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := make([]dispatch.Queue, 6)
	want := make(map[string]int)
	for i := range all {
		all[i] = dispatch.Queue{Name: string(rune('a' + i)), Limit: new(int64(20 * (i + 1)))}
		want[all[i].Name] = 20 * (i + 1)
	}
	var processes sync.WaitGroup
	for process := range 4 {
		slots := dispatch.NewSlots(b.store, b.inspector, func() {})
		own := seed.From(t, seed.Of(t)+uint64(process))
		processes.Go(func() {
			for range 15 {
				queues := make([]dispatch.Queue, 0, len(all))
				for _, at := range own.Perm(len(all))[:1+own.IntN(len(all))] {
					queues = append(queues, all[at])
				}
				if err := claimSome(t.Context(), slots, queues, own); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	processes.Wait()
	for queue, n := range b.outgoing(t) {
		if n > want[queue] {
			t.Errorf("queue %s has %d messages, its limit is %d", queue, n, want[queue])
		}
	}
	slots := dispatch.NewSlots(b.store, b.inspector, func() {})
	claims, err := slots.OpenTogether(t.Context(), all...)
	if err == nil {
		err = claims.Commit(t.Context(), fill(claims, all), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.outgoing(t)); diff != "" {
		t.Errorf("full queues (-want +got):\n%s", diff)
	}
}

// claimSome claims a random part of the free slots of queues.
func claimSome(ctx context.Context, slots *dispatch.Slots, queues []dispatch.Queue, random *rand.Rand) error {
	claims, err := slots.OpenTogether(ctx, queues...)
	if err != nil {
		return err
	}
	for _, c := range claims {
		c.Free = random.IntN(c.Free + 1)
	}
	return claims.Commit(ctx, fill(claims, queues), nil)
}
