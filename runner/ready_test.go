package runner

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/ledger"
)

// However slow whole looks are, a task of any date is found by the pass that gives its type one, and each type gets one
// within as many passes as there are types. A task that isn't late is found at once.
func TestLateTasksAreFound(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		types := make([]model.TaskType, rapid.IntRange(1, 8).Draw(t, "types"))
		for i := range types {
			types[i].Type = fmt.Sprint("type-", i)
		}
		type task struct {
			of   string
			date time.Time
			pass int // that follows its insertion
		}
		var l lookout
		var waiting []task
		now := time.Unix(1e9, 0)
		for pass := range rapid.IntRange(1, 60).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.IntRange(1, 30_000).Draw(t, "pause")) * time.Millisecond)
			for range rapid.IntRange(0, 2).Draw(t, "tasks") {
				late := time.Duration(rapid.IntRange(0, 100).Draw(t, "late")) * time.Second
				waiting = append(waiting, task{rapid.SampledFrom(types).Draw(t, "type").Type, now.Add(-late), pass})
			}
			from, ready := l.look(now), map[string]bool{}
			var left []task
			for _, w := range waiting {
				if at, partial := from[w.of]; !partial || !w.date.Before(at) {
					ready[w.of] = true
					continue
				}
				left = append(left, w)
				if now.Sub(w.date) <= ledger.LateTasks || pass-w.pass >= len(types) {
					t.Fatalf("pass %d didn't find %+v", pass, w)
				}
			}
			waiting = left
			var all []model.TaskType
			if len(ready) > 0 {
				all = types
			}
			l.looked(now, time.Duration(rapid.IntRange(1, 2000).Draw(t, "took"))*time.Millisecond, from, all, ready)
			for name := range ready {
				if rapid.Bool().Draw(t, "emptied") {
					l.emptied(name)
				}
			}
		}
	})
}

// A pass gives all types a whole look while that is fast. Otherwise it gives as many as fit into the time, one at least, in
// turn, and looks at the others from where they had no ready task.
func TestWholeLooks(t *testing.T) {
	t.Parallel()
	types := []model.TaskType{{Type: "a"}, {Type: "b"}, {Type: "c"}, {Type: "d"}}
	now := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		took time.Duration // of a pass with four whole looks
		wait time.Duration // between passes
		want []int         // whole looks
	}{
		"fast":          {4 * time.Millisecond, time.Second, []int{4, 4, 4, 4}},
		"slow":          {400 * time.Millisecond, 50 * time.Millisecond, []int{4, 1, 1, 1}},
		"slow, patient": {400 * time.Millisecond, 2 * time.Second, []int{4, 2, 1, 1}},
	} {
		var l lookout
		var got []int
		l.looked(now, 0, l.look(now), types, nil)
		for range c.want {
			now = now.Add(c.wait)
			from := l.look(now)
			got = append(got, len(types)-len(from))
			for _, tt := range types {
				at, partial := from[tt.Type]
				if partial && at != now.Add(-c.wait-ledger.LateTasks) {
					t.Errorf("%s: %s is looked at from %s before", name, tt.Type, now.Sub(at))
				}
			}
			l.looked(now, c.took/4*time.Duration(got[len(got)-1]), from, nil, nil)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v whole looks, want %v", name, got, c.want)
		}
	}
}

// Once nothing is ready, every type has a date from which on it is looked at, also one whose whole look had found tasks.
func TestTypesThatWereReadyGetADate(t *testing.T) {
	t.Parallel()
	types := []model.TaskType{{Type: "a"}, {Type: "b"}, {Type: "c"}}
	now := time.Unix(1e9, 0)
	var l lookout
	l.looked(now, 0, l.look(now), types, map[string]bool{"a": true, "b": true, "c": true})
	l.looked(now, time.Second, l.look(now), nil, nil)
	if from := l.look(now); len(from) != 2 { // one gets a whole look
		t.Errorf("dates of %v", from)
	}
}
