package recurrent

import (
	"context"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// byFreshness is the policy freshness alone.
var byFreshness = []model.WeightedPolicy{{Weight: 1, LongestWait: 100 * 24 * time.Hour, Filter: model.VisitFilter{Policy: model.Freshness, Cooldowns: model.DefaultCooldowns}}}

// Until all moments of a visit type are computed, the policy freshness picks the origins with the oldest
// visits. The computation begins at once. After it, the policy picks only origins whose moment has come.
func TestVisitsGoOnWhileMomentsAreComputed(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Migrate(t, dsn, migrate.Options{Policies: map[string][]model.WeightedPolicy{"git": byFreshness}})
	store := testenv.Open(t, dsn)
	exec := func(statement string, args ...any) {
		t.Helper()
		testenv.Exec(t, store.Pool(), statement, args...)
	}
	configure := func(visitTypes ...string) {
		t.Helper()
		longest := make(map[string]time.Duration)
		for _, v := range visitTypes {
			longest[v] = byFreshness[0].LongestWait
		}
		if err := store.ConfigureFreshness(t.Context(), longest); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	// walked reports whether the walk over candidates is complete.
	walked := func() bool {
		t.Helper()
		for range 20 {
			if err := store.MaintainFreshness(t.Context(), now, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		return testenv.Value[bool](t, store.Pool(), "select bool_and(complete) from scheduler_go.freshness_control")
	}
	picked := func(n int) string {
		t.Helper()
		var urls []string
		if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			picked, err := Picker{VisitType: "git", Policies: byFreshness}.Pick(ctx, tx, now, n)
			for _, v := range picked.Visits {
				urls = append(urls, v.Origin.URL)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(urls, " ")
	}
	exec("insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())")
	exec(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, first_seen, last_seen)
		select '00000000-0000-0000-0000-000000000001', chr(96 + n), 'git', '{}', true, $1, now() from generate_series(1, 9) n`, now.AddDate(0, 0, -50))
	// Origin a has the oldest visit, 900 hours ago; b's is 800 hours ago, and so on.
	exec(`insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_successful, last_visit_status, last_snapshot)
		select url, 'git', at, at, at, 'successful', 'x'
		from listed_origins, lateral (select $1::timestamptz - (106 - ascii(url)) * interval '100 hours' as at) v`, now)
	for more := true; more; {
		kept, err := store.MaintainCandidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more = kept.More
	}
	configure("hg")
	if !walked() {
		t.Fatal("the walk for the first visit type did not end")
	}
	configure("git", "hg")
	if got := picked(3); got != "a b c" {
		t.Errorf("before moments are computed, %q are picked, want the origins with the oldest visits", got)
	}
	exec("update scheduler_go.freshness_control set threshold = 1e-3, applied = 1e-3")
	if !walked() {
		t.Error("the walk does not begin at once")
	}
	if got := picked(3); got != "d e f" {
		t.Errorf("once moments are computed, %q are picked, want the origins with the earliest moments", got)
	}
	exec("update scheduler_go.freshness_control set threshold = 1e9, applied = 1e9")
	exec("update scheduler_go.walks set began = 'epoch'")
	if walked(); picked(3) != "" {
		t.Error("origins are picked before their moment")
	}
}
