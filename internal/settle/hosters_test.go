package settle

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// A refusal counts once, in whatever order its result and Celery's task-succeeded are received, and how often.
func TestRefusalAfterTaskSucceeded(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	now := store.Now().Truncate(time.Second)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, since, claimed, task_name, args, kwargs, queue, home, hosters, url, visit_type)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'sent', now() - interval '1 minute', now() - interval '1 minute', 'x', '[]', '{}', 'q', 'q',
			array['host' || n], 'https://host' || n || '/a', 'git' from generate_series(1, 4) n`)
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name) values ('load-x', '', 'x')")
	settle := Store{Store: store, Metrics: NewMetrics(prometheus.NewRegistry()), Hosters: model.Hosters{Backoff: &model.DefaultHosterBackoff}}
	const result, succeeded = true, false
	for host, events := range map[string][]bool{"1": {result, succeeded}, "2": {succeeded, result}, "3": {succeeded, succeeded, result, result}, "4": {succeeded}} {
		for _, event := range events {
			o := Outcome{BackendID: "00000000-0000-0000-0000-00000000000" + host, Received: now}
			if event == result {
				o.End = &End{Status: model.RunFailed, Error: new("unexpected http resp 429 for https://host" + host + "/a"), EventTime: model.UnixSeconds(now)}
			} else {
				o.Runtime = new(time.Second)
			}
			if err := settle.ApplyOutcomes(t.Context(), []Outcome{o}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if states := testenv.Column[string](t, store.Pool(), "select hoster || ' ' || score || ' ' || max_load from scheduler_go.refusing_hosters order by 1"); len(states) != 3 {
		t.Errorf("%v, want three that refused a visit", states)
	}
	if rows := testenv.Column[string](t, store.Pool(), "select url || ' ' || state from scheduler_go.work"); len(rows) != 1 || rows[0] != "https://host4/a settled" {
		t.Errorf("%v, want the one without a result, as settled", rows)
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.refused_visits"); n != 3 {
		t.Errorf("%d refused visits, want 3", n)
	}
	// The alert HostersRefuse divides one by the other.
	refused, failed := testutil.ToFloat64(settle.Metrics.refused.WithLabelValues("load-x", "too_many")), testutil.ToFloat64(settle.Metrics.outcomes.WithLabelValues("load-x", "failed"))
	if refused != 3 || failed != 3 {
		t.Errorf("the metrics count %v refused visits of %v failed ones, want 3 of 3", refused, failed)
	}
}
