package explain

import (
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
)

// An origin whose hoster refused its last visit waits for the time of that refusal, and not for the cooldowns of the visit.
func TestRefusedVisitIsExplained(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', 'https://forge/' || n, 'git', '{}', true, now() from generate_series(1, 2) n`,
		"insert into origin_visit_stats (url, visit_type, last_scheduled) select url, 'git', now() - interval '1 hour' from listed_origins",
		`insert into scheduler_go.refused_visits (url, visit_type, claimed, ended, again, recorded, waits)
			select url, 'git', now() - interval '1 hour', 0, now() + interval '1 minute', now(), url = 'https://forge/1' from listed_origins`,
	)
	x := &Gatherer{Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now(), Config: &config.Config{
		Celery:  config.Celery{TaskBroker: "amqp://127.0.0.1:1//"},
		Hosters: model.Hosters{Backoff: &model.HosterBackoff{Min: time.Minute, Max: time.Hour}},
		SchedulingPolicy: map[string][]model.WeightedPolicy{"git": {
			{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}},
		}},
	}}
	_, origin := explanations(t, x, "git")
	says(t, origin("https://forge/1")[0], []string{"Its hoster refused its last visit, and it can be picked again from"}, []string{"cooldown)"})
	says(t, origin("https://forge/2")[0], []string{"It is cooling down", "scheduled cooldown"}, []string{"refused"})
}
