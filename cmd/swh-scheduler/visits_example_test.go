package main

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// A queue of 100 slots is filled from the pools by the design's rule: (1-r) n origins without a date of last
// modification, and r n / 3 from each other pool. Policies with weights fill it as in the Python scheduler's manual. A
// real worker then visits each due origin once.
func TestSlotsOfPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies      string
		origins, want map[string]int
	}{
		// 80 of 200 origins have no such date: r is 0.6.
		"pools": {`[{policy: pools}]`, map[string]int{"plain": 80, "new": 40, "lagging": 40, "rest": 40},
			map[string]int{"plain": 40, "new": 20, "lagging": 20, "rest": 20}},
		"weights": {`[{policy: origins_without_last_update, weight: 5}, {policy: never_visited_oldest_update_first, weight: 80}, {policy: already_visited_order_by_lag, weight: 15}]`,
			map[string]int{"plain": 20, "new": 100, "lagging": 40}, map[string]int{"plain": 5, "new": 80, "lagging": 15}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLoaderRoom(t, fmt.Sprintf("scheduling_policy: {git: %s}\n", c.policies))
			all := 0
			for kind, n := range c.origins {
				r.list(kind, n, "{}")
				all += n
			}
			r.exec(`update listed_origins set last_update = now() - interval '10 days' where url !~ 'plain'`)
			r.exec(`insert into origin_visit_stats (url, visit_type, last_snapshot, last_successful)
				select url, visit_type, '\x00', now() - case when url ~ 'rest' then interval '5 days' else '20 days' end
				from listed_origins where url ~ 'lagging|rest'`)
			store := testenv.Open(t, r.dsn)
			for more := true; more; { // r is a number of candidates
				kept, err := store.MaintainCandidates(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				more = kept.More
			}
			start(t, "-C", r.config, "schedule-recurrent", "--visit-type", "git").logs(t, "started")
			testenv.Becomes(t, "visits in the queue", 100, func() int { return r.count("origin_visit_stats where last_scheduled is not null") })
			got := make(map[string]int)
			for kind := range c.origins {
				if n := r.count("origin_visit_stats where last_scheduled is not null and url ~ ('/' || $1::text || '/')", kind); n > 0 {
					got[kind] = n
				}
			}
			t.Logf("100 slots: %v", got)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("100 slots are divided as %v, want %v", got, c.want)
			}

			start(t, "-C", r.config, "journal-client").logs(t, "started")
			r.startWorker("visits@"+name, 2, laneGit)
			testenv.Becomes(t, "origins visited", all, func() int { return r.count("origin_visit_stats where last_visit is not null") })
			tries := r.triesOf()
			for url, of := range tries {
				if len(of) != 1 {
					t.Errorf("%s was visited %d times", url, len(of))
				}
			}
			if len(tries) != all {
				t.Errorf("%d origins were visited, want %d", len(tries), all)
			}
		})
	}
}

// Real workers visit an origin with news at each visit, one without news, and one that fails. News moves an origin 2
// places back in the design's table of intervals, no news 1 forward, each within a random tenth. A failure sets the
// shortest interval. After three, the origin waits until its lister sees it again.
func TestIntervalsOfRealVisits(t *testing.T) {
	t.Parallel()
	// An origin isn't sent again before its visit's outcome is recorded, however slow the worker is. Two outcomes in one
	// batch would apply both intervals.
	r := newLoaderRoom(t, `scheduling_policy: {git: [{policy: oldest_scheduled_first, weight: 1,
  absolute_cooldown: 0, failed_cooldown: 0, scheduled_cooldown: 1 day}]}
failures_keep_date: true
`)
	const each = 5
	r.list("changing", each, `{"news": true}`)
	r.list("still", each, `{}`)
	r.list("failing", each, `{"ends": "failed"}`)
	r.exec(`create table seen (n bigserial, url text, place int, position bigint);
			grant insert on seen to public; grant usage on sequence seen_n_seq to public; -- by the trigger, whoever writes
		create function see() returns trigger language plpgsql as $$ begin
			if new.last_visit_status is not null and new.next_visit_queue_position is distinct from old.next_visit_queue_position then
				insert into seen (url, place, position) values (new.url, new.next_position_offset, new.next_visit_queue_position);
				update origin_visit_stats set last_scheduled = last_scheduled - interval '1 day'
					where url = new.url and visit_type = new.visit_type;
			end if;
			return null;
		end $$;
		create trigger see after update on origin_visit_stats for each row execute function see()`)
	for _, args := range [][]string{{"journal-client"}, {"schedule-recurrent", "--visit-type", "git"}} {
		start(t, append([]string{"-C", r.config}, args...)...).logs(t, "started")
	}
	r.startWorker("visits@intervals", 2, laneGit)
	const visits = 8
	r.none("origins with too few visits", fmt.Sprintf(`listed_origins l where l.url !~ 'failing'
		and (select count(*) from seen s where s.url = l.url) < %d`, visits))
	r.none("origins that fail and are enabled", "listed_origins where url ~ 'failing' and enabled")
	// Its lister sees it again, and one more visit follows.
	r.exec("update listed_origins set enabled = true, last_seen = now() where url ~ 'failing'")
	r.none("origins that were not tried again", `listed_origins l where url ~ 'failing'
		and (enabled or (select count(*) from seen s where s.url = l.url) < 4)`)

	const day = 24 * 3600
	least, most := math.Inf(1), 0.0
	for kind, want := range map[string][]int{
		"changing": {4, 2, 0, 0, 0, 0, 0, 0},
		"still":    {4, 5, 6, 7, 8, 9, 10, 10},
		"failing":  {4, 4, 4},
	} {
		for i := range each {
			url := fmt.Sprintf("https://visit/%s/%d", kind, i+1)
			places := testenv.Column[int](t, r.pool, "select place from seen where url = $1 order by n limit $2", url, len(want))
			if !slices.Equal(places, want) {
				t.Errorf("%s went to the places %v, want %v", url, places, want)
			}
			positions := testenv.Column[int64](t, r.pool, "select position from seen where url = $1 order by n limit $2", url, len(want))
			for j, before := range append([]int64{0}, positions[:max(0, len(positions)-1)]...) {
				interval := model.DefaultVisitRules.Interval(int32(places[j])).Seconds()
				if kind == "failing" && j > 0 {
					interval = day
				}
				part := float64(positions[j]-before) / interval
				least, most = min(least, part), max(most, part)
				if part < 0.9-1e-6 || part > 1.1+1e-6 {
					t.Errorf("%s: visit %d moved it by %.2f of the interval", url, j+1, part)
				}
			}
		}
	}
	t.Logf("moves were %.3f to %.3f of their intervals", least, most)
}
