package explain

import (
	"context"
	"log/slog"
	"testing"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// unread is a broker whose queues hold three messages and have no consumers.
type unread struct{}

func (unread) Figures(context.Context, string) (f celery.QueueFigures) { return f }

func (unread) LengthSince(context.Context, string, celery.QueueFigures, int) (celery.QueueLength, error) {
	return celery.QueueLength{Exists: true, Ready: 3}, nil
}

// An origin has the last failure of a visit of its type, and the state of the queue that its pending visit is in.
func TestLastFailureOfAVisit(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 100), ('load-hg', '', 'swh.hg', null)",
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select '00000000-0000-0000-0000-000000000001', url, v, '{}', url <> 'https://off', now() from (values ('https://a', 'git'), ('https://a', 'hg'), ('https://off', 'git')) o (url, v)`,
		`insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status) values
			('https://a', 'git', '2030-01-01 11:00Z', '2029-12-01Z', 'failed'), ('https://a', 'hg', '2029-12-30Z', '2029-12-31Z', 'failed'), ('https://off', 'git', '2030-01-01 11:00Z', null, null),
			('https://gone', 'hg', '2030-01-01 11:00Z', null, null)`,
		`insert into scheduler_go.failures (at, type, exception, message, worker, visit_type, url) values
			('2029-12-01Z', 'load-git', 'NotFound', 'NotFound: no such repository', 'loader@old', 'git', 'https://a'),
			('2030-01-01 11:30Z', 'load-git', 'ValueError', 'bad object.', 'loader@host', 'git', 'https://a'),
			('2030-01-01 11:40Z', 'load-hg', '', '', '', 'hg', 'https://a')`,
	)
	x := &Gatherer{Store: store, Log: slog.New(slog.DiscardHandler), Now: noon, Broker: unread{}, Config: &config.Config{
		SchedulingPolicy: map[string][]model.WeightedPolicy{
			"git": {{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}}},
			"hg":  {{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst}}},
		},
	}}
	for _, c := range []struct {
		url, visitType string
		want, not      []string
	}{
		{"https://a", "git", []string{
			"It is cooling down", "A visit of it failed last at 2030-01-01 11:30:00+00:00 (30 min ago), as load-git on loader@host: ValueError: bad object.",
			"Its queue swh.git has room: it holds 3 of at most 100 messages (0 unacknowledged).", "No worker reads queue swh.git.",
		}, []string{"NotFound", "load-hg"}},
		{"https://a", "hg", []string{"can be picked for a visit now", "as load-hg: without a message.", "Its queue swh.hg holds 3 messages", "No worker reads queue swh.hg."}, []string{"ValueError"}},
		{"https://off", "git", []string{"It is disabled", "No worker reads queue swh.git."}, []string{"failed last"}},
		{"https://gone", "hg", []string{"No lister lists it", "No worker reads queue swh.hg."}, nil},
	} {
		_, origin := explanations(t, x, c.visitType)
		all := origin(c.url)
		if len(all) != 1 {
			t.Fatalf("%s %s: %+v", c.url, c.visitType, all)
		}
		says(t, all[0], c.want, c.not)
	}

	// On a lane, the queue is that of the lane.
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, lane_set, lane, lane_name, memory, lister, first, behind, soft_limit, since, url, visit_type)
		values (gen_random_uuid(), 'sent', 'swh.git.slow', 'swh.git', 'swh.git', '[]', '{}', 'load-git', 1, 'slow', 0, '', false, 0, 60, now(), 'https://a', 'git')`)
	_, origin := explanations(t, x, "git")
	says(t, origin("https://a")[0], []string{"Its queue swh.git.slow holds 3 messages (0 unacknowledged).", "No worker reads queue swh.git.slow."}, []string{"no limit"})
}
