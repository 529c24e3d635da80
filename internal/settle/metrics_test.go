package settle_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
)

// Metrics count each end once, by the task's type and status. They count a failure by the class of its exception,
// and measure the runtime and the wait. They count a message of a lane by its lane. Types are those of the database,
// and the number of exceptions is bounded.
func TestMetrics(t *testing.T) {
	t.Parallel()
	store, reg := outcomesStore(t), prometheus.NewRegistry()
	store.Metrics = settle.NewMetrics(reg)
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	well, bad, visit, moved, final := ids[0], ids[1], ids[2], ids[3], ids[4]
	addTask(t, store, "good", well)
	addTask(t, store, "good", bad)
	mustExec(t, store, `update task_run set scheduled = $1`, at(0))
	mustExec(t, store, `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, since, lane_set, lane, lane_name, lanes_left, soft_limit, hard_limit, memory, lister, first, behind)
		select id, 'sent', 'q', 'q', 'swh.test.Good', '[]', '{}', $2, $2, 'good', 0, 'express', case when id = $3 then 0 else 1 end, 10, 20, 0, '', false, 0
		from unnest($1::uuid[]) id`, []string{visit, moved, final}, at(0), final)
	timedOut := func(id string) settle.Outcome {
		o := failed(id, "billiard.exceptions.SoftTimeLimitExceeded()", 40)
		o.End.TimedOut = true
		return o
	}
	events := []settle.Outcome{
		started(well, "w", 7), ended(well, model.RunEventful, 20),
		started(bad, "w", 70), failed(bad, "swh.loader.exception.NotFound: https://x/", 80),
		started(visit, "w", 2), ended(visit, model.RunUneventful, 5),
		timedOut(moved), timedOut(final),
		failed(uuid.NewString(), "it failed", 80), // of an unknown task
	}
	for range 2 {
		apply(t, store, events[:len(events)-1]...)
	}
	apply(t, store, events[len(events)-1:]...)
	for i := range 60 {
		apply(t, store, failed(uuid.NewString(), fmt.Sprintf("E%d: x", i), 80))
	}
	want := `
		swh_scheduler_lane_ended_total{lane="express",lane_set="good"} 1
		swh_scheduler_lane_timeouts_total{lane="express",lane_set="good",outcome="failed"} 1
		swh_scheduler_lane_timeouts_total{lane="express",lane_set="good",outcome="moved"} 1
		swh_scheduler_lane_wait_seconds_bucket{lane="express",lane_set="good",le="1"} 0
		swh_scheduler_lane_wait_seconds_bucket{lane="express",lane_set="good",le="5"} 1
		swh_scheduler_lane_wrong_predictions_total{kind="slow_sent_express",lane="express",lane_set="good"} 1
		swh_scheduler_task_failures_total{exception="NotFound",task_type="good"} 1
		swh_scheduler_task_failures_total{exception="SoftTimeLimitExceeded",task_type="good"} 1
		swh_scheduler_task_failures_total{exception="E1",task_type="other"} 1
		swh_scheduler_task_failures_total{exception="other",task_type="other"} 13
		swh_scheduler_task_outcomes_total{status="eventful",task_type="good"} 1
		swh_scheduler_task_outcomes_total{status="failed",task_type="good"} 2
		swh_scheduler_task_outcomes_total{status="uneventful",task_type="good"} 1
		swh_scheduler_task_runtime_seconds_count{task_type="good"} 3
		swh_scheduler_task_wait_seconds_sum{task_type="good"} 79
		swh_scheduler_task_wait_seconds_count{task_type="good"} 3`
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/", nil))
	got := recorder.Body.String()
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); !strings.Contains(got, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
