package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/graphs"
)

// graphStore is a store with rounds of the drain of graphs, of which the last one
// comes again and again, and with no ready tasks.
type graphStore struct {
	Store
	rounds []graphs.Round
	slow   time.Duration // of each round
	drains int
}

func (*graphStore) Now() time.Time { return time.Now() }

func (s *graphStore) AdvanceGraphs(context.Context, time.Time) (graphs.Round, error) {
	s.drains++
	time.Sleep(s.slow)
	round := s.rounds[0]
	if len(s.rounds) > 1 {
		s.rounds = s.rounds[1:]
	}
	return round, nil
}

func (s *graphStore) OutgoingDue(context.Context, bool) (int, error) { return 0, nil }
func (s *graphStore) ReadyTaskTypes(context.Context, time.Time, bool, map[string]time.Time) ([]string, error) {
	return nil, nil
}

func newGraphRunner(t *testing.T, store *graphStore) *Runner {
	return New(Options{Store: store, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry(), Period: time.Second})
}

// A pass makes a bounded number of rounds and then asks for the next pass at once. If other transactions blocked
// it, it asks for a pass soon.
func TestRoundsOfAPass(t *testing.T) {
	for name, tc := range map[string]struct {
		rounds []graphs.Round
		drains int
		want   service.Result
	}{
		"nothing to do":    {[]graphs.Round{{}}, 1, service.Result{}},
		"two rounds":       {[]graphs.Round{{Released: 5, More: true}, {}}, 2, service.Result{}},
		"more than fit":    {[]graphs.Round{{Released: 5, More: true}}, graphRounds, service.Result{Again: true}},
		"others are at it": {[]graphs.Round{{Waits: true}}, 1, service.Result{Next: othersWait}},
	} {
		store := &graphStore{rounds: tc.rounds}
		got, err := newGraphRunner(t, store).graphs(t.Context())
		if err != nil || store.drains != tc.drains {
			t.Errorf("%s: %d rounds, %v", name, store.drains, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Ready tasks don't wait for many slow rounds.
func TestSlowRoundsOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &graphStore{rounds: []graphs.Round{{Failed: 500, More: true}}, slow: 700 * time.Millisecond}
		got, err := newGraphRunner(t, store).graphs(t.Context())
		if want := (service.Result{Again: true}); err != nil || got != want || store.drains != 2 {
			t.Errorf("%d rounds, %+v, %v; want 2 rounds, and another pass at once", store.drains, got, err)
		}
	})
}

// Drain continues until graphs have no more work, also after passes without ready tasks.
func TestDrainGoesOnForGraphs(t *testing.T) {
	more := make([]graphs.Round, 3*graphRounds, 3*graphRounds+1)
	for i := range more {
		more[i].More = true
	}
	store := &graphStore{rounds: append(more, graphs.Round{})}
	if n, err := newGraphRunner(t, store).Drain(t.Context()); n != 0 || err != nil || store.drains != 3*graphRounds+1 {
		t.Errorf("%d tasks, %v, after %d rounds, want %d", n, err, store.drains, 3*graphRounds+1)
	}
}

// Task types that share a queue make one job, with the limit of the type that the shares name, whichever type is
// ready. Tasks with priority are not shared.
func TestJobs(t *testing.T) {
	byType := model.Shares{By: model.ShareByTaskType, Default: 1, HalfLife: time.Hour}
	byLister := model.Shares{By: model.ShareByLister, Default: 1, HalfLife: time.Hour}
	all := []model.TaskType{ // those of the default queue share it
		{Type: "a", BackendName: "x.a", MaxQueueLength: new(int64(1))},
		{Type: "b", BackendName: "x.b", MaxQueueLength: new(int64(2))},
		{Type: "c", BackendName: "swh.c", MaxQueueLength: new(int64(3))},
		{Type: "d", BackendName: "swh.d", MaxQueueLength: new(int64(4))},
	}
	type got struct {
		Queue  string
		Limit  int64
		Types  int
		Shared model.ShareKey
	}
	for name, tc := range map[string]struct {
		withPriority bool
		want         []got
	}{
		"without priority": {false, []got{{"celery", 2, 2, byType.By}, {"swh.c", 3, 1, byLister.By}, {"swh.d", 4, 1, ""}}},
		"with priority": {true, []got{{"save_code_now:x.a", 1, 1, ""}, {"save_code_now:x.b", 2, 1, ""},
			{"save_code_now:swh.c", 3, 1, ""}, {"save_code_now:swh.d", 4, 1, ""}}},
	} {
		r := &Runner{Options: Options{WithPriority: tc.withPriority, Shares: map[string]model.Shares{"b": byType, "c": byLister}}}
		var jobs []got
		for _, j := range r.jobs(all, all) {
			g := got{Queue: j.queue.Name, Limit: *j.queue.Limit, Types: len(j.types)}
			if j.shares != nil {
				g.Shared = j.shares.By
			}
			jobs = append(jobs, g)
		}
		if diff := cmp.Diff(tc.want, jobs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// readyTypes is a store whose task types are all ready.
type readyTypes struct {
	Store
	types []model.TaskType
}

func (readyTypes) Now() time.Time { return time.Now() }

func (s readyTypes) TaskTypes(context.Context) ([]model.TaskType, error) { return s.types, nil }

func (s readyTypes) ReadyTaskTypes(context.Context, time.Time, bool, map[string]time.Time) (names []string, err error) {
	for _, tt := range s.types {
		names = append(names, tt.Type)
	}
	return names, nil
}

// openSlots calls a function for each claim, which then fails.
type openSlots func()

func (o openSlots) Open(_ context.Context, q dispatch.Queue) (*dispatch.Claim, error) {
	o()
	return nil, errors.New("no slots in " + q.Name)
}

func (o openSlots) OpenTogether(ctx context.Context, queues ...dispatch.Queue) (dispatch.Claims, error) {
	_, err := o.Open(ctx, queues[0])
	return nil, err
}

// A pass claims for several queues at once, as each claim waits for the disk. An error of a claim doesn't keep the others
// from theirs.
func TestAPassClaimsForSeveralQueues(t *testing.T) {
	store := readyTypes{}
	for i := range 3 * parallelClaims {
		store.types = append(store.types, model.TaskType{Type: fmt.Sprint("type", i), BackendName: fmt.Sprint("swh.queue", i)})
	}
	var mu sync.Mutex
	open, most, full := 0, 0, make(chan struct{})
	count := func() {
		mu.Lock()
		open++
		if most = max(most, open); open == parallelClaims {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		select {
		case <-full:
		case <-time.After(testenv.Patience):
			t.Errorf("only %d claims at once", most)
		}
		mu.Lock()
		open--
		mu.Unlock()
	}
	r := New(Options{Store: store, Slots: openSlots(count), Log: slog.New(slog.DiscardHandler), Reg: prometheus.NewRegistry()})
	n, err := r.RunOnce(t.Context())
	if n != 0 || err == nil || most != parallelClaims {
		t.Errorf("%d tasks, %v, %d claims at once at most", n, err, most)
	}
	for _, tt := range store.types {
		want := fmt.Sprintf("task type %q: no slots in %s", tt.Type, tt.BackendName)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// Types of a queue keep their order, as the first one takes the free slots.
func TestJobsOfAQueueKeepTheirOrder(t *testing.T) {
	var jobs []job
	for _, queue := range []string{"a", "b", "a", "c", "b", "a"} {
		jobs = append(jobs, job{queue: dispatch.Queue{Name: queue}})
	}
	if diff := cmp.Diff([][]int{{0, 2, 5}, {1, 4}, {3}}, byQueue(jobs)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Queues with a limit, one job, and neither lanes nor groups share transactions: as many as run at once, until each has
// claimsTogether.
func TestTransactions(t *testing.T) {
	many := func(n int) (jobs []job) {
		for i := range n {
			jobs = append(jobs, job{queue: dispatch.Queue{Name: fmt.Sprint(i), Limit: new(int64(1))}})
		}
		return jobs
	}
	special := many(9)
	special[0].queue.Limit = nil
	special[1].queue.Limit = new(int64(0))
	special[2].queue.Lanes = &dispatch.LaneSet{}
	special[3].shares = &model.Shares{}
	special[4].queue.Name = "8"
	large := make([][][]int, 5)
	for i := range 65 {
		if i%claimsTogether == 0 {
			large[i/claimsTogether] = [][]int{nil}
		}
		large[i/claimsTogether][0] = append(large[i/claimsTogether][0], i)
	}
	for name, tc := range map[string]struct {
		jobs []job
		want [][][]int
	}{
		"none":    {nil, nil},
		"few":     {many(3), [][][]int{{{0}}, {{1}}, {{2}}}},
		"more":    {many(6), [][][]int{{{0, 1}}, {{2, 3}}, {{4, 5}}}},
		"many":    {many(65), large},
		"special": {special, [][][]int{{{0}}, {{1}}, {{2}}, {{3}}, {{4}, {8}}, {{5}}, {{6}}, {{7}}}},
	} {
		if diff := cmp.Diff(tc.want, transactions(tc.jobs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// While nothing is ready, a runner waits for its period. After a claim it looks again soon, then after twice that wait, up
// to its period. Ready tasks without a free slot don't shorten the wait.
func TestPauses(t *testing.T) {
	p := pauses{period: 64 * time.Second, idle: patientPasses}
	type pass struct {
		claimed int
		ready   bool
	}
	idle, full, claim := pass{}, pass{ready: true}, pass{claimed: 1, ready: true}
	var got []time.Duration
	for _, of := range []pass{idle, full, claim, idle, idle, full, idle, claim, full, idle, idle, idle, idle, idle, idle, idle, idle} {
		got = append(got, p.after(of.claimed, of.ready)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{64, 64, 64, 2, 4, 64, 8, 64, 64, 2, 4, 8, 16, 32, 64, 64, 64}, got); diff != "" {
		t.Errorf("seconds (-want +got):\n%s", diff)
	}
}
