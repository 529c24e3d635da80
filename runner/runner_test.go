package runner

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// --task-type names types, --task-type-pattern gives prefixes; a type must match both if both are given.
func TestWanted(t *testing.T) {
	for name, tc := range map[string]struct {
		types, patterns []string
		want            map[string]bool
	}{
		"no filter": {nil, nil, map[string]bool{"load-git": true, "list-github": true}},
		"named":     {[]string{"load-git", "load-hg"}, nil, map[string]bool{"load-git": true, "load-hg": true, "load": false, "load-git-checkout": false}},
		"prefixes":  {nil, []string{"list-", "index"}, map[string]bool{"list-github": true, "indexer": true, "load-git": false, "a-list-": false}},
		"both":      {[]string{"load-git"}, []string{"load"}, map[string]bool{"load-git": true, "load-hg": false}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Runner{Options: Options{TaskTypes: tc.types, TaskTypePatterns: tc.patterns}}
			for task, want := range tc.want {
				if got := r.wanted(task); got != want {
					t.Errorf("%q: %v", task, got)
				}
			}
		})
	}
}

// Claims double with each pass, except for ten seconds after a task with priority came in.
func TestClaimsDouble(t *testing.T) {
	now := time.Now()
	r := &Runner{now: func() time.Time { return now }}
	r.PriorityCameIn()
	var got []int64
	for range 10 {
		got = append(got, r.mostAtOnce.Load())
		r.claimMore()
		now = now.Add(besidePriority / 2)
	}
	if want := []int64{50, 50, 50, 100, 200, 400, 800, 1600, 2000, 2000}; !slices.Equal(got, want) {
		t.Errorf("the most tasks of claims are %v, want %v", got, want)
	}
}
