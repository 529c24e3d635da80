package recurrent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
)

// All slots are given out, in whole slots. Each pool gets the design's part, give or take one slot; a group
// without origins gets none.
func TestPoolsDivideTheSlots(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		without := rapid.Int64Range(0, 1e9).Draw(t, "without")
		with := rapid.Int64Range(0, 1e9).Draw(t, "with")
		with = max(with, 1-without)
		n := rapid.IntRange(0, 10_000).Draw(t, "slots")
		parts := divide(n, weights(pools(model.WeightedPolicy{}, without, with)))
		ratio := float64(with) / float64(without+with)
		want := []float64{(1 - ratio) * float64(n), ratio * float64(n) / 3, ratio * float64(n) / 3, ratio * float64(n) / 3}
		sum := 0
		for i, part := range parts {
			sum += part
			if off := float64(part) - want[i]; off < -1 || off > 1 || want[i] == 0 && part > 0 {
				t.Errorf("pool %d gets %d of %d slots, want about %.1f (%d without, %d with)", i, part, n, want[i], without, with)
			}
		}
		if sum != n {
			t.Errorf("%d of %d slots are given out", sum, n)
		}
	})
}

// A round fills the queue from all four pools by their parts. Slots that a pool cannot fill go to the
// others. The policy by visit target moves the visit type's position forward only.
func TestRoundOfPools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 60, false)
	w.list(t, "new", 10, true) // fewer than their third
	w.list(t, "lagging", 40, true)
	w.list(t, "rest", 40, true)
	w.exec(t, `insert into origin_visit_stats (url, visit_type, last_snapshot, last_successful, next_visit_queue_position)
		select url, visit_type, 'x', case when url ~ 'rest' then timestamptz '2026-02-01Z' else '2025-01-01Z' end,
		       substring(url from '[0-9]+$')::int
		from listed_origins where url ~ 'lagging|rest'`)
	w.exec(t, "insert into visit_scheduler_queue_position values ('git', 7)")
	for more := true; more; {
		kept, err := w.store.MaintainCandidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more = kept.More
	}
	policies := []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{
		Policy: model.Pools, Cooldowns: model.DefaultCooldowns,
	}}}
	runRound(t, w.round(t, policies))
	got := make(map[string]int)
	for _, url := range w.scheduled(t) {
		got[url[len("https://"):len("https://")+3]]++
	}
	// 60 of 150 have no last update: they get 40 slots, each other pool 20. One pool leaves 10 slots to the
	// three others, again by weight.
	if got["new"] != 10 || got["pla"] < 44 || got["pla"] > 46 || got["lag"] < 22 || got["lag"] > 23 || got["res"] < 22 || got["res"] > 23 {
		t.Errorf("scheduled %v", got)
	}
	var position, last int64
	if err := w.store.Pool().QueryRow(t.Context(), `select position, (select max(next_visit_queue_position) from origin_visit_stats
		where last_scheduled is not null and url ~ 'rest') from visit_scheduler_queue_position`).Scan(&position, &last); err != nil {
		t.Fatal(err)
	}
	if position != last || int(last) != got["res"] {
		t.Errorf("the position is %d, the last visit target %d, want both %d", position, last, got["res"])
	}
	w.messages(t)
	w.exec(t, "update visit_scheduler_queue_position set position = 1000")
	runRound(t, w.round(t, policies))
	position = testenv.Value[int64](t, w.store.Pool(), "select position from visit_scheduler_queue_position")
	if position != 1000 || len(w.scheduled(t)) != 150 {
		t.Errorf("the position moved to %d, %d origins are scheduled; want 1000 and all 150", position, len(w.scheduled(t)))
	}

	// A policy split by forks gives forks their part and the slots that originals leave.
	w.exec(t, "update listed_origins set is_fork = url ~ '[5-9]$'; update origin_visit_stats set last_scheduled = null")
	picker := Picker{VisitType: "git", Policies: []model.WeightedPolicy{{Weight: 1, Forks: 0.1, Filter: model.VisitFilter{
		Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns,
	}}}}
	for _, c := range []struct{ slots, forks int }{{70, 7}, {80, 68}} { // of 150 origins 75 are forks
		if err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := picker.Pick(ctx, tx, time.Now(), c.slots)
			n := 0
			for _, v := range picked.Visits {
				if v.Origin.IsFork != nil && *v.Origin.IsFork {
					n++
				}
			}
			if n != c.forks || len(picked.Visits) != c.slots {
				t.Errorf("%d of %d visits are of forks, want %d of %d", n, len(picked.Visits), c.forks, c.slots)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// pools picks an origin that may have changed after its last visit by the resolution of its last update:
// the same second, or the same day if listers date in days. pools picks it once, when that second or day is
// over; the Python scheduler's policy never does. After the next visit, the origin counts as unchanged.
func TestPoolsTakeUpdatesAsOldAsTheVisit(t *testing.T) {
	t.Parallel()
	visited := time.Date(2026, 3, 1, 10, 20, 30, 400_000_000, time.UTC)
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		updated time.Time
		pools   time.Time // the moment from which pools picks the origin as changed
		python  bool      // whether the Python scheduler's policy picks the origin
	}{
		{name: "in-the-second", updated: visited.Truncate(time.Second), pools: visited.Truncate(time.Second).Add(time.Second)},
		{name: "on-the-day", updated: midnight, pools: midnight.AddDate(0, 0, 1)},
		{name: "exactly", updated: visited, pools: visited.Add(time.Microsecond)},
		{name: "second-before", updated: visited.Truncate(time.Second).Add(-time.Second)},
		{name: "day-before", updated: midnight.AddDate(0, 0, -1)},
		{name: "just-before", updated: visited.Add(-time.Microsecond)},
		{name: "after", updated: visited.Add(time.Microsecond), pools: visited, python: true},
		{name: "long-ago", updated: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
		{name: "far", updated: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), pools: visited, python: true},
	} {
		for _, built := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, built %v", c.name, built), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.list(t, "origin", 1, true)
				w.exec(t, fmt.Sprintf("update listed_origins set last_update = '%s'", c.updated.Format(time.RFC3339Nano)))
				w.exec(t, fmt.Sprintf(`insert into origin_visit_stats (url, visit_type, last_snapshot, last_visit, last_successful, last_visit_status)
					select url, visit_type, 'x', '%[1]s', '%[1]s', 'successful' from listed_origins`, visited.Format(time.RFC3339Nano)))
				for more := true; more; {
					kept, err := w.store.MaintainCandidates(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					more = kept.More
				}
				if !built {
					w.exec(t, "update scheduler_go.candidate_build set phase = 'empty'")
				}
				// picked returns the policy that picks the origin at a moment, or "".
				picked := func(now time.Time, policies ...model.WeightedPolicy) (by model.VisitPolicy) {
					t.Helper()
					err := w.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
						p, err := Picker{VisitType: "git", Policies: policies}.Pick(ctx, tx, now, 10)
						if len(p.Visits) == 1 {
							by = p.Visits[0].Policy
						}
						return cmp.Or(err, errRollback)
					})
					if err != errRollback {
						t.Fatal(err)
					}
					return by
				}
				pools := model.WeightedPolicy{Weight: 1, Filter: model.VisitFilter{Policy: model.Pools, Cooldowns: model.DefaultCooldowns}}
				python := model.WeightedPolicy{Weight: 1, Filter: model.VisitFilter{Policy: model.AlreadyVisitedOrderByLag, Cooldowns: model.DefaultCooldowns}}
				for _, now := range []time.Time{c.pools, visited.AddDate(0, 0, 2)} {
					for _, d := range []time.Duration{0, time.Microsecond} {
						now, want := now.Add(d), model.VisitPolicy("")
						switch {
						case now.Before(visited):
							continue
						case c.pools.IsZero():
							want = model.OthersByVisitTarget
						case now.After(c.pools) || c.python:
							want = model.AlreadyVisitedOrderByLag
						}
						if by := picked(now, pools); by != want {
							t.Errorf("at %s pools picks it by %q, want %q", now, by, want)
						}
						if by := picked(now, python); (by != "") != c.python {
							t.Errorf("at %s the Python scheduler's policy picks it: %v, want %v", now, by != "", c.python)
						}
					}
				}
				// The visit that pools asked for takes place and finds no change.
				if again := c.pools.Add(time.Second); !c.pools.IsZero() && !c.python {
					w.exec(t, fmt.Sprintf("update origin_visit_stats set last_visit = '%[1]s', last_successful = '%[1]s'", again.Format(time.RFC3339Nano)))
					if by := picked(again.AddDate(0, 0, 2), pools); by != model.OthersByVisitTarget {
						t.Errorf("after another visit pools picks it by %q", by)
					}
				}
			})
		}
	}
}

var errRollback = errors.New("roll back")
