package explain

import (
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// An origin's place in a policy's order is told, whether what changed of the origins before it has been drained
// or not; how many are before it at least, where it is further back than is searched; and neither
// while candidates can't be used, or more has changed than is read for a place.
func TestPlaceOfAnOrigin(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into listers (id, name, instance_name, current_state, updated) select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'l', n, '{}', now() from generate_series(1, 2) n`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', 'https://o' || n, 'git', '{}', true, now() from generate_series(1, 6) n`,
		`insert into origin_visit_stats (url, visit_type, last_scheduled) select url, visit_type, now() - (70 - 10 * right(url, 1)::int) * interval '1 day' from listed_origins`,
	)
	tells := func(deepest int, url, want string) {
		t.Helper()
		x := &Gatherer{Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now(), SearchDepth: deepest, Config: &config.Config{
			Celery: config.Celery{TaskBroker: "amqp://127.0.0.1:1//"},
			SchedulingPolicy: map[string][]model.WeightedPolicy{"git": {
				{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}},
				{Weight: 2, Filter: model.VisitFilter{Policy: model.AlreadyVisitedOrderByLag, Cooldowns: model.DefaultCooldowns}},
			}},
		}}
		_, origin := explanations(t, x, "git")
		for _, e := range origin(url) {
			says(t, e, []string{"Policy oldest_scheduled_first, which has weight 1 of its visit type's, can pick it: " + want, "picks origins that were loaded before"}, nil)
		}
	}
	const unknown = "its place in the policy's order is unknown now"
	tells(0, "https://o3", "it is number 3 in")
	tells(3, "https://o5", "more than 3 origins are before it in")
	tells(1, "https://o3", unknown) // each was listed and scheduled
	for more := true; more; {
		kept, err := store.MaintainCandidates(t.Context())
		if more = kept.More; err != nil {
			t.Fatal(err)
		}
	}
	tells(1, "https://o3", "more than 1 origin is before it in")
	tells(3, "https://o3", "it is number 3 in")
	testenv.Exec(t, store.Pool(), "update origin_visit_stats set last_scheduled = now() where url = 'https://o1'")
	tells(3, "https://o3", "it is number 2 in")
	testenv.Exec(t, store.Pool(), "update scheduler_go.candidate_build set phase = 'empty'")
	tells(3, "https://o3", unknown)
}
