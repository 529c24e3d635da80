package dashboard

import (
	"math"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/model"
)

// sampledFigures inserts samples of a queue, its groups and a visit type, an hour ago, for five minutes and for the
// hour.
const sampledFigures = `insert into scheduler_go.figures (span, figure, name, part, since, samples, sums)
	select span, figure, name, part, date_trunc('hour', now() - interval '1 hour'), 2, sums
	from unnest(array['five', 'hour', 'day']) span, (values ('queue', '', '', '{}'::float8[]), ('share', '', '', '{}'), ('origins', '', '', '{}'), ('pools', '', '', '{}'), ('staleness', '', '', '{}'), ('visits', '', '', '{}'),
		('queue', 'swh.git', '', array[246, 'NaN'::float8, 0, 0, 8]), ('share', 'swh.git', 'github', array[1.5, 1.2]), ('share', 'swh.git', 'gitlab', array[0.5, 0.8]),
		('origins', 'git', '', array[2000, 1900, 600, 400, 2 * extract(epoch from now() - interval '5 hours')]), ('pools', 'git', '', array[2, 4, 6, 8]), ('staleness', 'git', '', array[20, 7200, 10, 1200])) f (figure, name, part, sums)`

// Pages draw figures over time: the length and consumers of a queue, the target and actual shares of its groups, and the
// backlog, pools and staleness of visit types. A queue's figures are also on its task type's page.
func TestFiguresAreDrawn(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 10)",
		"insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'github', '{}', now())",
		"insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes) select id, 'git', now(), 1000, 950, 300, 200 from listers",
		`insert into scheduler_go.walks (name, finished, result) values ('moments of candidates', now(), '{"VisitTypes": {"git": {"Origins": 10, "Staleness": 3600, "Told": 5, "Known": 600}}}')`,
		sampledFigures)
	s.config.Shares = map[string]model.Shares{"load-git": {By: model.ShareByListerInstance, Weights: map[string]float64{"github": 3, "gitlab": 1}, Default: 1, HalfLife: time.Hour}}
	drawn := func(all []levels, title, name string) float64 {
		t.Helper()
		for _, l := range all {
			for _, line := range l.Lines {
				if l.Title != title || line.Name != name {
					continue
				}
				var known []float64
				for _, v := range line.Values {
					if !math.IsNaN(float64(v)) && v != 0 { // null is decoded as 0
						known = append(known, float64(v))
					}
				}
				if len(known) != 1 {
					t.Errorf("%s, %s: %v", title, name, line.Values)
					return 0
				}
				return known[0]
			}
		}
		t.Errorf("no %s of %s", name, title)
		return 0
	}
	for _, span := range []string{"", "&range=30d", "&range=2y"} {
		q := read[queueData](s, "/queue?name=swh.git"+span)
		for _, want := range []struct {
			title, name string
			value       float64
		}{{"Messages", "ready", 123}, {"Consumers", "consumers", 4}, {"Share of github", "target", 0.75}, {"Share of github", "now", 0.6}, {"Share of gitlab", "target", 0.25}} {
			if got := drawn(q.Levels, want.title, want.name); got != want.value {
				t.Errorf("%s: %s, %s: %g", span, want.title, want.name, got)
			}
		}
		if got := drawn(read[typePageData](s, "/types/load-git?"+strings.TrimPrefix(span, "&")).Levels, "Messages in swh.git", "ready"); got != 123 {
			t.Errorf("%s: the type's queue: %g", span, got)
		}
		f := read[freshnessData](s, "/freshness?visit_type=git"+span)
		for _, want := range []struct {
			title, name string
			value       float64
		}{{"git: origins that lack a visit", "never visited", 300}, {"git: pools", "others", 4}, {"git: staleness", "estimated", 360}, {"git: staleness", "measured", 120}} {
			if got := drawn(f.Levels, want.title, want.name); got != want.value {
				t.Errorf("%s: %s, %s: %g", span, want.title, want.name, got)
			}
		}
	}
	s.has("/queue?name=swh.git&range=30d", "ready: 123 at the end, 123 at most", "Share of github, in numbers", "75.0 %", `class="third"`)
	s.has("/freshness", "estimated: 6 min at the end", `href="/freshness?range=30d"`)
	// A figure that was never counted is unknown, not 0.
	s.exec("delete from scheduler_metrics", "delete from scheduler_go.figures where figure in ('origins', 'pools') and name <> ''",
		"insert into scheduler_go.figures select span, 'visits', 'git', '', date_trunc('hour', now() - interval '1 hour'), 2, array[20, 2, 18, 2200] from unnest(array['five', 'hour', 'day']) span")
	body := s.has("/freshness", "not known: update-metrics has not counted its origins")
	if strings.Contains(body, `<td class="n">0</td>`) || strings.Contains(body, "never visited: 0 at the end") {
		t.Errorf("origins that were not counted are none:\n%s", body)
	}
	s.has("/queue?name=other", "ready: 0 at the end, 0 at most")
	if c := (levels{Title: "x"}).Chart(); !c.Empty() || !strings.Contains(c.Text, "Nothing") {
		t.Errorf("%+v", c)
	}
}
