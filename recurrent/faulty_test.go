package recurrent

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// faultyOrigins are origins that cannot be sent, by column and value of the fault.
var faultyOrigins = map[string][2]string{
	"list":                 {"extra_loader_arguments", `'["x"]'`},
	"null":                 {"extra_loader_arguments", "'null'"},
	"text":                 {"extra_loader_arguments", `'"x"'`},
	"number":               {"extra_loader_arguments", "'1'"},
	"updated-never-ending": {"last_update", "'infinity'"},
	"updated-ever":         {"last_update", "'-infinity'"},
	"first-seen-never":     {"first_seen", "'infinity'"},
	"first-seen-ever":      {"first_seen", "'-infinity'"},
	"last-seen-never":      {"last_seen", "'infinity'"},
	"last-seen-ever":       {"last_seen", "'-infinity'"},
}

// listFaulty lists faulty origins, first in the order of all policies.
func (w *world) listFaulty(t *testing.T) {
	t.Helper()
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, first_seen, last_update)
		select '00000000-0000-0000-0000-000000000001', 'https://odd/' || name, 'git', '{}', true, now(), '2000-01-01', '2000-01-01' from unnest($1::text[]) name`, oddNames())
	for name, odd := range faultyOrigins {
		w.exec(t, "update listed_origins set "+odd[0]+" = "+odd[1]+" where url = 'https://odd/"+name+"'")
	}
}

func oddNames() []string {
	var names []string
	for name := range faultyOrigins {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// texts returns the first column of a query's rows.
func (w *world) texts(t *testing.T, query string) []string {
	t.Helper()
	return testenv.Column[string](t, w.store.Pool(), query)
}

// For each fault of an origin and each way to claim visits: the round sets the faulty origin aside with the
// reason, and claims the others. Once mended, the faulty origin is claimed.
func TestFaultyOriginsStopNoClaim(t *testing.T) {
	t.Parallel()
	shares := model.Shares{By: model.ShareByLister, Default: 1}
	lanes := map[string][]model.Lane{"load-git": {
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 2 * time.Minute, Slots: 100, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: 2 * time.Hour, Slots: 100, MinSlots: 1},
	}}
	other := model.DefaultCooldowns
	other.Absolute++
	for name, way := range map[string]struct {
		drained   bool
		shared    bool
		lanes     map[string][]model.Lane
		cooldowns model.Cooldowns
	}{
		"candidates, changes pending":         {cooldowns: model.DefaultCooldowns},
		"candidates, drained":                 {cooldowns: model.DefaultCooldowns, drained: true},
		"candidates, drained, shares":         {cooldowns: model.DefaultCooldowns, drained: true, shared: true},
		"candidates, changes pending, shares": {cooldowns: model.DefaultCooldowns, shared: true},
		"candidates, lanes":                   {cooldowns: model.DefaultCooldowns, drained: true, lanes: lanes},
		"tables":                              {cooldowns: other},
		"tables, shares":                      {cooldowns: other, shared: true},
		"tables, lanes":                       {cooldowns: other, lanes: lanes},
		"tables, shares, lanes":               {cooldowns: other, shared: true, lanes: lanes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			policies := weighted(map[model.VisitPolicy]float64{model.NeverVisitedOldestUpdateFirst: 60, model.OriginsWithoutLastUpdate: 40})
			for i := range policies {
				policies[i].Filter.Cooldowns = way.cooldowns
			}
			r := w.round(t, policies)
			if way.shared {
				w.share(t, r, shares)
			}
			r.Lanes = way.lanes
			w.list(t, "a", 20, true)
			w.list(t, "b", 20, false)
			w.listFaulty(t)
			if way.drained || way.shared { // shares read groups from candidates
				w.keep(t)
			}
			if !way.drained {
				w.exec(t, "update listed_origins set first_seen = first_seen + interval '1 second'")
			}
			runRound(t, r)
			claimed := func(host string) []string {
				t.Helper()
				return w.texts(t, "select kwargs ->> 'url' from scheduler_go.work where kwargs ->> 'url' like 'https://"+host+"/%' order by 1")
			}
			if n := len(claimed("_")); n != 40 {
				t.Errorf("%d of 40 visits were claimed", n)
			}
			if odd := claimed("odd"); len(odd) > 0 {
				t.Errorf("odd origins were claimed: %v", odd)
			}
			if marked := w.texts(t, "select url from origin_visit_stats where url like 'https://odd/%'"); len(marked) > 0 {
				t.Errorf("odd origins are marked as scheduled: %v", marked)
			}
			aside := w.texts(t, "select substr(url, 13) from scheduler_go.set_aside_origins where reason <> '' order by url collate \"C\"")
			if diff := cmp.Diff(oddNames(), aside); diff != "" {
				t.Errorf("set aside (-want +got):\n%s", diff)
			}
			w.exec(t, `update listed_origins set extra_loader_arguments = '{}', last_seen = now(), first_seen = now(), last_update = '2020-01-01' where url like 'https://odd/%'`)
			if err := w.store.RetrySetAside(t.Context()); err != nil {
				t.Fatal(err)
			}
			if way.drained {
				w.keep(t)
			}
			runRound(t, r)
			if n := len(claimed("odd")); n != len(faultyOrigins) {
				t.Errorf("%d of %d mended origins were claimed", n, len(faultyOrigins))
			}
		})
	}
}

// More faulty origins than a round has slots delay the others by at most a round.
func TestManyFaultyOriginsFillNoRound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "good", 30, true)
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-0000-0000-000000000001', 'https://odd/' || n, 'git', '[]', true, now(), '2000-01-01' from generate_series(1, 450) n`)
	w.keep(t)
	r := w.round(t, weighted(map[model.VisitPolicy]float64{model.NeverVisitedOldestUpdateFirst: 1}))
	runRound(t, r)
	if n := w.texts(t, "select count(*)::text from scheduler_go.work"); n[0] != "30" {
		t.Errorf("%s of 30 visits were claimed", n[0])
	}
}

// After a claim of visits that times out, the next claim is smaller.
func TestClaimThatTimesOutIsHalved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "good", 100, true)
	w.keep(t)
	w.exec(t, `create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$`)
	w.exec(t, "create trigger slow before insert or update on origin_visit_stats for each row execute function slow()")
	w.exec(t, `do $$ begin execute format('alter database %I set statement_timeout = ''1s''', current_database()); end $$`)
	w.store.Pool().Reset() // new connections
	r := w.round(t, weighted(map[model.VisitPolicy]float64{model.NeverVisitedOldestUpdateFirst: 1}))
	for range 12 {
		if _, err := r.runOnce(t.Context()); err != nil {
			t.Log(err)
		}
	}
	if n := w.texts(t, "select lpad(count(*)::text, 3) from scheduler_go.work"); n[0] < " 50" {
		t.Errorf("%s of 100 visits were claimed in 12 rounds", n[0])
	}
}
