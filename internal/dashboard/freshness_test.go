package dashboard

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/status"
)

// For each visit type, the page says when the backlog is gone, and how many workers a date needs, with the assumptions.
// It also lists late listers.
func TestFreshnessPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.has("/freshness", "No origins are counted.")
	s.exec(`insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')`,
		`insert into listers (id, name, instance_name, current_state, updated, last_listing_finished_at)
			select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'gitea', 'forge' || n, '{}', now(), now() - n * n * interval '1 day' from generate_series(1, 4) n`,
		`update scheduler_go.listings set previous = finished - interval '1 day'`,
		`insert into scheduler_metrics (lister_id, visit_type, last_update, origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
			select id, v, now() - interval '5 hours', 300, 250, 40, 10 from listers, unnest(array['git', 'hg', 'svn']) v`,
		`insert into scheduler_go.figures (span, figure, name, part, since, samples, sums)
			select span, figure, name, '', date_trunc('hour', now() - ago), 1, case when figure = 'origins' and name <> '' then array[1200 - known, 0, 160 - never, 40, extract(epoch from now() - ago) - 18000] else sums end
			from (values ('five', interval '0'), ('hour', interval '2 days')) p (span, ago), (values ('origins', '', 0, 0, '{}'::float8[]), ('origins', 'git', 20, -100, null), ('origins', 'hg', 20, 100, null)) f (figure, name, k, n, sums),
				lateral (select case when ago > '0' then k else 0 end as known, case when ago > '0' then n else 0 end as never) v
			union all
			select 'day', 'visits', name, '', date_trunc('day', now(), 'UTC'), 288, sums from (values ('', '{}'::float8[]), ('git', array[480, 0, 400, 400 * 180])) v (name, sums)
			union all
			select 'five', 'queue', name, '', date_trunc('minute', now()) - extract(minute from now())::int % 5 * interval '1 minute', 1, sums from (values ('', '{}'::float8[]), ('swh.git', array[3, 1, 0, 0, 7])) q (name, sums)`)
	f := read[status.Freshness](s, "/freshness")
	if len(f.Types) != 3 || len(f.Listers) != 12 || len(f.Late) != 3 {
		t.Fatalf("%+v", f)
	}
	git, hg, svn := f.Types[0], f.Types[1], f.Types[2]
	// Two days ago 260 origins had no visit. Now 200 have none, and 50 fewer each day.
	if git.Verdict != freshness.VerdictGone || math.Abs(*git.GoneIn-4*86400) > 60 || *git.OutOfDate != 0.2 || *git.Consumers != 7 || *git.VisitsADay != 480 || *git.Took != 180 || *git.Busy != 1 {
		t.Errorf("%+v", git)
	}
	if hg.Verdict != freshness.VerdictNever || svn.Verdict != freshness.VerdictUnknown || svn.Consumers != nil {
		t.Errorf("%+v\n%+v", hg, svn)
	}
	s.has("/freshness", "gone in 4 days", "never at this rate: the backlog grows by 50 a day", "not known: its origins were counted once only", "5 h 0 min ago", "growth between two counts 2 days apart; visits over 24 h; mean runtime of 400 ends", "3 listers have stopped or fall behind", `<span class="bad">stopped</span>`, `<span class="bad">behind</span>`)
	// 430 visits a day become due. The 200 of the backlog within two days are 100 more a day: 530 visits of 180 s.
	by := time.Now().Add(48 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	s.has("/freshness?visit_type=git&by="+by, "2 parallel workers until")
	if with := read[status.Freshness](s, "/freshness?visit_type=git&workers=2"); len(with.Types) != 1 || len(with.Listers) != 4 || math.Abs(*with.Types[0].GoneIn-200./530*86400) > 60 {
		t.Errorf("%+v", with)
	}
	if q := read[status.Freshness](s, "/freshness?q=forge1"); q.Found != 3 || len(q.Late) != 0 {
		t.Errorf("%+v", q)
	}
	for _, path := range []string{"/freshness?workers=many", "/freshness?workers=-1", "/freshness?by=whenever"} {
		if answer, _ := s.ask(http.MethodGet, path, nil); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	if text := status.FreshnessTables(pytext.Terminal{}, f); !strings.Contains(text, "never at this rate") || !strings.Contains(text, "Listers that have stopped: gitea forge3, gitea forge4") || !strings.Contains(text, "Listers that fall behind: gitea forge2") {
		t.Error(text)
	}
}
