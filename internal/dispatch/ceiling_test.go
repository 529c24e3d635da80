package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv/seed"
)

// A group has at most its ceiling in flight. In the same claim, the slots that it can't take go to the others by
// their weights. It saves no credit meanwhile: once the ceiling is removed, all groups get their shares at once. A
// group that returns gets no credit for its absence.
func TestCeilingOfAGroup(t *testing.T) {
	t.Parallel()
	s := newSharing(t, map[string]float64{"a": 50, "b": 30}, 20)
	s.q.Shares.MaxInFlight = map[string]int{"a": 10}
	s.waiting = map[string]int{"a": -1, "b": -1, "c": -1}
	s.want(s.pass(100), map[string]int{"a": 10, "b": 54, "c": 36}, 0)
	s.want(s.pass(100), map[string]int{"a": 0, "b": 60, "c": 40}, 0)
	reg := prometheus.NewRegistry()
	gauges := dispatch.NewShareGauges(s.store, func(context.Context) ([]dispatch.SharedQueue, error) { return []dispatch.SharedQueue{s.q}, nil }, slog.New(slog.DiscardHandler), reg)
	if err := gauges.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP swh_scheduler_share_max_in_flight Ceiling of swh_scheduler_share_in_flight, by queue and group; only groups that have one.
# TYPE swh_scheduler_share_max_in_flight gauge
swh_scheduler_share_max_in_flight{group="a",queue="q"} 10
# HELP swh_scheduler_share_weight Weights of the groups that have work waiting and are below their ceilings, by queue and group; groups without a weight or a ceiling of their own are taken together.
# TYPE swh_scheduler_share_weight gauge
swh_scheduler_share_weight{group="(others)",queue="q"} 20
swh_scheduler_share_weight{group="a",queue="q"} 0
swh_scheduler_share_weight{group="b",queue="q"} 30
`), "swh_scheduler_share_max_in_flight", "swh_scheduler_share_weight"); err != nil {
		t.Error(err)
	}
	for range 3 {
		for group := range s.waiting {
			s.end(group, 1)
		}
		s.want(s.pass(100), map[string]int{"a": 10, "b": 54, "c": 36}, 1)
	}
	s.waiting["c"] = 0
	for range 3 {
		s.pass(100)
	}
	s.waiting["c"] = -1
	for range 3 {
		s.want(s.pass(100), map[string]int{"a": 0, "b": 60, "c": 40}, 1)
	}
	s.q.Shares.MaxInFlight = nil
	s.want(s.pass(100), map[string]int{"a": 50, "b": 30, "c": 20}, 1)
}

// Two schedulers claim at once while messages arrive and end. No group exceeds its ceiling, no slot stays free
// that a group may use, and each group with room gets slots.
func TestCeilingsHold(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	s := newSharing(t, map[string]float64{"a": 1, "b": 5, "c": 20}, 1)
	s.q.Shares.MaxInFlight = map[string]int{"b": 3, "c": 12}
	other := *s
	other.sent = make(map[string][]uuid.UUID)
	halves := [2]*sharing{s, &other}
	served := make(map[string]int)
	for range 40 {
		for _, group := range []string{"a", "b", "c", "d"} {
			s.waiting[group] += r.IntN(12)
		}
		waiting := maps.Clone(s.waiting)
		var both sync.WaitGroup
		var got [2]map[string]int
		var errs [2]error
		free := [2]int{r.IntN(12), r.IntN(12)}
		for i, half := range halves {
			half.waiting = make(map[string]int)
			for group, n := range waiting {
				half.waiting[group] = n / 2
				if i == 0 {
					half.waiting[group] += n % 2
				}
			}
			half.now = half.now.Add(time.Second)
			both.Go(func() { got[i], errs[i] = half.claim(free[i]) })
		}
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		states, err := s.store.ShareStates(t.Context(), s.q.Name, s.now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for group, most := range s.q.Shares.MaxInFlight {
			if states[group] != nil && states[group].InFlight > most {
				t.Fatalf("%d messages of group %s in flight, of at most %d", states[group].InFlight, group, most)
			}
		}
		for i, half := range halves {
			claimed := 0
			for group, n := range got[i] {
				claimed += n
				served[group] += n
			}
			for group, n := range half.waiting {
				most, capped := s.q.Shares.MaxInFlight[group]
				if n > 0 && claimed < free[i] && (!capped || states[group].InFlight < most) {
					t.Fatalf("%d of %d slots were used, while group %s had %d waiting", claimed, free[i], group, n)
				}
				waiting[group] -= got[i][group]
			}
			for _, group := range []string{"a", "b", "c", "d"} {
				if r.IntN(2) == 0 {
					half.end(group, float64(r.IntN(5)))
				}
			}
		}
		s.waiting = waiting
	}
	for _, group := range []string{"a", "b", "c", "d"} {
		if served[group] == 0 {
			t.Errorf("nothing of group %s was claimed: %v", group, served)
		}
	}
}
