package dashboard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// The page of a queue that stands still names the cause, and links to a page with details.
func TestQueuesThatStandStill(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		`insert into task_type (type, description, backend_name, max_queue_length) select t, '', 'swh.' || t, 9 from unnest(array['busy', 'load-git', 'idle', 'ready', 'unread', 'one']) t`,
		"insert into task (type, arguments, next_run, status, policy) values ('ready', '{}', now() - interval '1 hour', 'next_run_not_scheduled', 'oneshot')",
		"insert into scheduler_go.ended select date_trunc('minute', now()) - interval '20 minutes', 'worker', 'busy', 'eventful', '', 20, 0, 5, 100",
		"insert into scheduler_go.ended select date_trunc('minute', now()) - interval '2 minutes', 'worker', 'idle', status, exception, 20, 0, n, 100 from (values ('eventful', '', 3), ('failed', 'OSError', 1), ('failed', 'ValueError', 4)) v (status, exception, n)",
		`insert into scheduler_go.refusing_hosters values ('gitea/low', 3, 'epoch', 10, 'epoch', now() + interval '1 hour', 0, 0, 'epoch', 'epoch', 0, now(), 'too_many', 'HTTP 429', 0, 'epoch', false)`,
		`insert into scheduler_go.work (state, queue, task_id, task_name, args, kwargs, hosters) select 'sent', 'q', gen_random_uuid(), 't', '[]', '{}', '{github/github.com}' from generate_series(1, 5)`,
	)
	s.config.Hosters = model.Hosters{Default: model.HosterLimit{MaxInFlight: 5}, LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff}
	queue := func(name string, q status.Queue) status.Queue {
		q.Queue, q.TaskType, q.Limit = "swh."+name, name, 9
		if q.Unacknowledged == nil {
			q.Unacknowledged = new(0)
		}
		return q
	}
	s.now.queues.read = func(context.Context) ([]status.Queue, error) {
		return []status.Queue{
			queue("busy", status.Queue{Ready: 5, Unacknowledged: new(4), Consumers: 2, Out: new(0.)}),
			queue("load-git", status.Queue{Consumers: 2}), queue("idle", status.Queue{Consumers: 2}), queue("ready", status.Queue{Consumers: 2}),
			queue("unread", status.Queue{}), queue("one", status.Queue{Ready: 1}),
		}, nil
	}
	err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: "start-listener", Host: "host1", Started: time.Now().Add(-2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.exec("update scheduler_go.daemons set seen = now() - interval '91 minutes'")
	for name, causes := range map[string][]string{
		"busy": {
			`<a href="/tasks?status=next_run_scheduled&amp;type=busy">It is full: its limit is 9 messages`, "Workers take no more, and 4 messages are unacknowledged.",
			`<a href="/daemons">No end of busy was reported for five minutes`, `<a href="/daemons">start-listener on host1 has not reported`,
		},
		"load-git": {
			`<a href="/hosters">The hoster gitea/low refuses visits (too_many), and gets at most 3 in flight.`,
			`<a href="/hosters">The hoster github/github.com has 5 visits in flight, as many as it takes.`,
			"No origin of the visit type git is due", "no schedule-recurrent runs",
		},
		"idle": {
			`<a href="/tasks?status=next_run_not_scheduled&amp;type=idle">No task idle is ready to be sent.`,
			`<a href="/errors?exception=ValueError&amp;type=idle">Of idle, 5 of the 8 that ended in the last hour failed, most by ValueError.`,
		},
		"ready":  {`<a href="/daemons">Ready tasks: 1, but no start-runner runs.`},
		"one":    {"1 message waits in swh.one: no worker reads it."},
		"unread": {`No worker reads it.`, `href="/runbooks#QueueWithoutConsumer"`},
	} {
		body := s.has("/queue?name=swh."+name, causes...)
		if name != "busy" && strings.Contains(body, "It is full") {
			t.Errorf("%s is said to be full", name)
		}
	}
	s.exec("update scheduler_go.candidate_build set phase = 'rows'")
	s.has("/queue?name=swh.load-git", "It is unknown whether an origin of the visit type git is due")
	s.has("/queues", `<a href="/hosters">`, "1 refuses visits", "1 has as many as configured")
	s.now.queues.read = func(context.Context) ([]status.Queue, error) { return nil, errors.New("dial tcp: connection refused") }
	s.forget()
	s.has("/queue?name=swh.busy", "The queues can&#39;t be read now")
}
