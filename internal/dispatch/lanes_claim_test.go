package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// remember records a runtime, in seconds, for the first origins.
func (l *laned) remember(origins int, seconds float64) {
	l.exec(`insert into scheduler_go.lane_memory
		select hashtextextended('load-git https://forge.example/' || n, 0), $2, 0, false, 0, now() from generate_series(0, $1::int - 1) n`, origins, seconds)
}

// A longer lane with free slots takes the work with the longest expected runtime from the backlog before it, new
// claims included. Work that has waited as long as its own limit goes first, so that all work is sent in time.
func TestLongerLanesTakeTheSlowest(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(1, 2)...)
	for n, seconds := range []float64{10, 50, 20, 0, 5, 40, 30, 45} { // nothing is known of number 3
		if seconds > 0 {
			l.exec("insert into scheduler_go.lane_memory values (hashtextextended($1, 0), $2, 0, false, 0, now())",
				fmt.Sprintf("load-git https://forge.example/%d", n), seconds)
		}
	}
	l.claimed(8)
	check := func(express, slow []int) {
		t.Helper()
		got := [][]int{numbers(l.outboxOf("express:" + lanedQueue)), numbers(l.outboxOf(lanedQueue))}
		if diff := cmp.Diff([][]int{express, slow}, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		l.exec("delete from scheduler_go.work where state = 'outgoing'")
	}
	check([]int{0}, []int{1, 7})
	l.keep()
	check([]int{2}, []int{5, 6})
	l.exec("update scheduler_go.work set since = since - interval '16 minutes' where kwargs ->> 'url' like '%/3'")
	l.claimed(1)
	check([]int{8}, []int{3, 4})
}

// Slots that become free in one lane go to a lane whose backlog waits longer than its target, before the lane's
// own backlog.
func TestSlotsGoToLateLanes(t *testing.T) {
	t.Parallel()
	lanes := two(1, 4)
	lanes[0].MaxSlots, lanes[0].TargetWait, lanes[1].TargetWait = 4, time.Minute, time.Hour
	l := newLaned(t, lanes...)
	l.remember(5, 500)
	l.claimed(9)
	l.exec("delete from scheduler_go.work where state = 'outgoing' and (kwargs ->> 'url' like '%/0' or kwargs ->> 'url' like '%/1')")
	l.exec("update scheduler_go.work set since = since - interval '3 minutes' where state = 'backlog' and lane = 0")
	l.keep()
	if diff := cmp.Diff([][]int{{5, 6, 7}, {2, 3}}, [][]int{numbers(l.outboxOf("express:" + lanedQueue)), numbers(l.outboxOf(lanedQueue))}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Claims for a queue, or for lanes with that queue, wait for the holder of its lock.
func TestClaimsWaitForTheLockOfTheirQueue(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	for name, tc := range map[string]struct {
		locked string
		queue  dispatch.Queue
	}{
		"plain":     {"other", dispatch.Queue{Name: "other", Limit: new(int64(5))}},
		"slow lane": {lanedQueue, l.q},
		"express":   {"express:" + lanedQueue, l.q},
	} {
		claimed := make(chan error, 1)
		err := l.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := tx.LockQueues(ctx, tc.locked); err != nil {
				return err
			}
			go func() {
				_, err := claimWith(t.Context(), l.slots, tc.queue, func(context.Context, *db.Tx, int) ([]ledger.Work, error) { return nil, nil })
				claimed <- err
			}()
			testenv.Becomes(t, "claims that wait", 1, func() int {
				if len(claimed) > 0 {
					t.Fatalf("%s: the claim did not wait", name)
				}
				return l.count(`pg_locks where locktype = 'advisory' and not granted
					and database = (select oid from pg_database where datname = current_database())`)
			})
			return nil
		})
		if err == nil {
			err = <-claimed
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process claims for several lane sets at once without a data race. The race detector reports one.
func TestClaimsForLaneSetsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	var claims, both sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"load-git", "load-hg"} {
		q := dispatch.Queue{Name: name}.WithLanes(name, model.TaskType{Type: name, BackendName: name}, map[string][]model.Lane{name: two(2, 2)})
		claims.Go(func() {
			_, err := claimWith(t.Context(), l.slots, q, func(context.Context, *db.Tx, int) ([]ledger.Work, error) {
				both.Done()
				both.Wait()
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	claims.Wait()
}

// Nothing is claimed while the backlogs have more than can be sent soon, even if a lane has slots.
func TestLongBacklogsStopClaims(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 1)...)
	fill := func(from, to int) {
		l.exec(`insert into scheduler_go.work (task_id, state, lane_set, lane, since, claimed, task_name, args, kwargs, queue, home, memory, lister, first, behind)
			select id, 'backlog', 'load-git', 1, now(), now(), 'x', '[]', '{}', $1, $1, 0, '', false, 0
			from (select gen_random_uuid() as id from generate_series($2::int, $3) offset 0) x`, lanedQueue, from, to)
	}
	fill(1, 100_001) // one of them is sent at once
	if n := l.claim(1); n != 0 {
		t.Errorf("%d claimed, behind lines of 100,000", n)
	}
	l.exec("delete from scheduler_go.work where task_id in (select task_id from scheduler_go.work where state = 'backlog' limit 1)")
	if n := l.claim(1); n != 1 {
		t.Errorf("%d claimed, want 1: an express lane is free", n)
	}
}

// A claim with too few free slots to be worth it doesn't measure how much work there is. So the express lane lends
// none of its slots.
func TestClaimThatWasNotWorthItLendsNothing(t *testing.T) {
	t.Parallel()
	lanes := two(10, 2)
	lanes[1].MaxSlots = 5
	l := newLaned(t, lanes...)
	l.remember(3, 500)
	if n := l.claim(12); n != 12 {
		t.Fatalf("%d claimed, want 12", n)
	}
	want := [][]int{{3, 4, 5, 6, 7, 8, 9, 10, 11}, {0, 1}} // 2 waits for the slow lane
	for _, claim := range []int{-1, 0, -1} {               // -1: none
		if claim == 0 {
			l.claim(0) // one slot is free, a tenth
		} else {
			l.keep()
		}
		if diff := cmp.Diff(want, [][]int{numbers(l.outboxOf("express:" + lanedQueue)), numbers(l.outboxOf(lanedQueue))}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Work in a later lane's slot, because its own lane had none, is no wrong prediction if it ends quickly. Work in
// its predicted lane is.
func TestOverflowIsNoWrongPrediction(t *testing.T) {
	t.Parallel()
	lanes := two(1, 1)
	middle := model.Lane{Name: "middle", Queue: "middle", SoftTimeLimit: 5 * time.Minute, TimeLimit: 6 * time.Minute, Slots: 1, MinSlots: 1}
	l := newLaned(t, lanes[0], middle, lanes[1])
	l.remember(2, 100) // too much for the express lane
	l.claim(2)
	own, overflow := l.outboxOf("middle"), l.outboxOf(lanedQueue)
	if diff := cmp.Diff([][]int{{1}, {0}}, [][]int{numbers(own), numbers(overflow)}); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	l.apply(l.start(own[0].id), l.done(own[0].id, 30*time.Second), l.start(overflow[0].id), l.done(overflow[0].id, 30*time.Second))
	history, err := l.store.LaneHistory(t.Context(), "load-git", l.now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if m, s := history["middle"], history["slow"]; m == nil || s == nil || m.QuickSentSlow != 1 || s.QuickSentSlow != 0 || s.Ended != 1 {
		t.Errorf("middle %+v, slow %+v", m, s)
	}
}

// The runtime until a time-out is not recorded as the work's runtime. Once it has ended in a longer lane, only
// that runtime counts.
func TestTimeOutIsNotRememberedAsATime(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(1, 1)...)
	l.claim(1)
	first := l.outboxOf("express:" + lanedQueue)[0]
	l.apply(l.start(first.id), l.over(first.id, time.Minute))
	l.sent()
	l.keep()
	second := l.outboxOf(lanedQueue)[0]
	l.apply(l.start(second.id), l.done(second.id, 100*time.Second))
	if n := l.count("scheduler_go.lane_memory where seconds = 100 and before = 0 and not at_least"); n != 1 {
		t.Error("what is remembered is not the 100 seconds alone")
	}
	l.sent()
	l.next = 0
	l.claim(1)
	third := l.outboxOf(lanedQueue)
	if len(third) != 1 {
		t.Fatalf("the next visit did not go to the slow lane: %+v", third)
	}
	l.apply(l.start(third[0].id), l.done(third[0].id, 130*time.Second))
	if n := l.count("scheduler_go.lane_memory where seconds = 130 and before = 100 and not at_least"); n != 1 {
		t.Error("the two last times are not remembered")
	}
}

// Of two runtimes of a task, the later report stays, whichever is written last.
func TestOlderTimeReplacesNoNewerOne(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(1, 1)...)
	l.remember(1, 30)
	l.exec("update scheduler_go.lane_memory set recorded = now() + interval '1 hour'")
	l.claim(1)
	sent := l.outboxOf("express:" + lanedQueue)[0]
	l.apply(l.start(sent.id), l.done(sent.id, 40*time.Second))
	if n := l.count("scheduler_go.lane_memory where seconds = 30 and before = 0"); n != 1 {
		t.Error("the newer time is not remembered")
	}
}

// Work that may still be in its queue is not given up, however long it waits there.
func TestLaneWorkInItsQueueIsNotGivenUp(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(4, 2)...)
	l.claim(6) // on the way to the queues
	l.exec("update scheduler_go.work set state = 'sent' where task_id = (select min(task_id::text)::uuid from scheduler_go.work where queue = $1)", lanedQueue)
	l.maintain(l.now.Add(2*time.Minute), l.q)
	l.maintain(l.now.Add(13*time.Minute), l.q)
	if n := l.count("scheduler_go.work"); n != 5 {
		t.Errorf("%d are underway, want 5: one is in no queue", n)
	}
}

// The work of a run that was given up is not requeued in another lane.
func TestWorkOfARunGivenUpGoesOnNowhere(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.exec(`insert into task (type, arguments, next_run, status, policy, retries_left) values
		('load-git', '{"args": [], "kwargs": {"url": "https://forge.example/1"}}', now(), 'next_run_not_scheduled', 'oneshot', 2)`)
	if _, err := claimWith(t.Context(), l.slots, l.q, func(ctx context.Context, tx *db.Tx, free int) ([]ledger.Work, error) {
		_, work, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: l.tt, Queue: l.q.Name, Groups: []ledger.TaskGroup{{Count: free}}, Tried: true, Now: time.Now()})
		return work, err
	}); err != nil {
		t.Fatal(err)
	}
	id := l.outboxOf("express:" + lanedQueue)[0].id
	l.sent()
	l.exec("update task_run set status = 'lost', ended = now() where backend_id = $1", id.String())
	l.apply(l.start(id), l.over(id, time.Minute))
	l.keep()
	if n, sent := l.count("scheduler_go.work"), l.outbox(t); n != 0 || sent != 0 {
		t.Errorf("%d underway, %d sent again", n, sent)
	}
	if n := l.count("task_run where status = 'lost' and backend_id = $1", id.String()); n != 1 {
		t.Error("the run is not as it was")
	}
}
