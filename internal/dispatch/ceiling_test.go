package dispatch_test

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv/seed"
)

// A group gets no more messages in flight than its ceiling, and what it can't take goes to
// the others by their weights, in the same claim. It saves nothing up meanwhile: once the
// ceiling is gone, all get their shares at once, and none has to wait for it. Nor has a group
// that comes back a rush, as if all had stood where that one stood.
func TestCeilingOfAGroup(t *testing.T) {
	t.Parallel()
	s := newSharing(t, map[string]float64{"a": 50, "b": 30}, 20)
	s.q.Shares.MaxInFlight = map[string]int{"a": 10}
	s.waiting = map[string]int{"a": -1, "b": -1, "c": -1}
	s.want(s.pass(100), map[string]int{"a": 10, "b": 54, "c": 36}, 0)
	s.want(s.pass(100), map[string]int{"a": 0, "b": 60, "c": 40}, 0)
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

// Whatever comes, ends and is claimed by two schedulers at once: no group is ever above its
// ceiling, no slot stays free that a group may have, and no group waits for ever that has
// room.
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
