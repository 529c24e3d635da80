package recurrent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"swh-scheduler/internal/model"
)

// Samples follow claimed visits to their outcomes, by policy and lister. They count each visit once, when
// it has ended, and forget visits that never end.
func TestSampledVisits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "x", 6, true) // of the listers gitea (2, 4, 6) and github (1, 3, 5)
	w.exec(t, `insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status, last_successful, last_snapshot, next_visit_queue_position)
		select 'https://x/' || n, 'git', '2025-01-01', 'successful', '2025-01-01', '\x01', 1 from generate_series(1, 4) n`)
	r := w.round(t, []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst}}})
	now := time.Now()
	r.samples.now = func() time.Time { return now }
	runRound(t, r)
	look := func(waiting int) {
		t.Helper()
		if err := r.samples.countEnded(t.Context()); err != nil || len(r.samples.pending) != waiting {
			t.Fatalf("%d visits are followed, want %d, %v", len(r.samples.pending), waiting, err)
		}
	}
	look(6)
	w.exec(t, `update origin_visit_stats set next_visit_queue_position = 2, last_visit = now(),
			last_visit_status = (case n when 3 then 'failed' when 4 then 'not_found' else 'successful' end)::last_visit_status,
			last_snapshot = case when n in (1, 5) then '\x02'::bytea else last_snapshot end
		from generate_series(1, 5) n where url = 'https://x/' || n`)
	look(1)
	look(1)
	want := `# HELP swh_scheduler_recurrent_sampled_visits_total Visits that ended of a random sample of those claimed, by visit type, policy, lister and outcome: eventful, uneventful (made in vain), failed, not_found.
# TYPE swh_scheduler_recurrent_sampled_visits_total counter
swh_scheduler_recurrent_sampled_visits_total{lister="gitea",outcome="not_found",policy="oldest_scheduled_first",visit_type="git"} 1
swh_scheduler_recurrent_sampled_visits_total{lister="gitea",outcome="uneventful",policy="oldest_scheduled_first",visit_type="git"} 1
swh_scheduler_recurrent_sampled_visits_total{lister="github",outcome="eventful",policy="oldest_scheduled_first",visit_type="git"} 2
swh_scheduler_recurrent_sampled_visits_total{lister="github",outcome="failed",policy="oldest_scheduled_first",visit_type="git"} 1
`
	if err := testutil.CollectAndCompare(r.samples.ended, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	now = now.Add(sampleKept + time.Minute)
	look(0)
}
