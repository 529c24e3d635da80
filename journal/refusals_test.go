package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// A visit that its hoster refuses is no failure of its origin, whether the record or the event of its end arrives
// first. Other failures count. The origin may be visited again after the hoster's wait, as if it had not been
// scheduled. The hoster's limit is half of the visits in flight.
func TestRefusedVisitsDoNotCount(t *testing.T) {
	t.Parallel()
	const host = "git.example.org"
	hosters := model.Hosters{Backoff: &model.DefaultHosterBackoff}
	dsn := testenv.Database(t)
	store := testenv.Open(t, dsn)
	now := store.Now().Truncate(time.Second)
	execute(t, dsn, `insert into scheduler_go.work (task_id, state, since, claimed, task_name, args, kwargs, queue, home, hosters, url, visit_type)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'sent', now() - interval '1 minute', now() - interval '1 minute', 'x', '[]', '{}', 'q', 'q',
			'{gitea/forge,`+host+`}', 'https://`+host+`/' || n, 'git' from generate_series(0, 7) n`)
	execute(t, dsn, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status, last_snapshot)
		select url, visit_type, claimed, claimed - interval '3 days', 'successful', '\x00' from scheduler_go.work where url not like '%/3'`)
	execute(t, dsn, `insert into origin_visit_stats (url, visit_type, last_scheduled) select url, visit_type, claimed from scheduler_go.work where url like '%/3'`)
	record := func(n int) {
		t.Helper()
		v := Visit{OriginKey: model.OriginKey{URL: fmt.Sprintf("https://%s/%d", host, n), VisitType: "git"}, Date: now, Status: model.VisitFailed}
		if _, err := noFudge.Write(t.Context(), store, []Visit{v}); err != nil {
			t.Fatal(err)
		}
	}
	event := func(n int, message string) {
		t.Helper()
		end := &settle.End{Status: model.RunFailed, Error: &message, EventTime: model.UnixSeconds(now) + 1}
		if err := (settle.Store{Store: store, Hosters: hosters}).ApplyOutcomes(t.Context(), []settle.Outcome{{BackendID: fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", n), Received: now.Add(2 * time.Second), End: end}}); err != nil {
			t.Fatal(err)
		}
	}
	const tooMany = "unexpected http resp 429 for https://" + host + "/a/info/refs?service=git-upload-pack"
	record(0)
	event(0, tooMany)
	event(1, tooMany)
	record(1)
	record(2)
	event(2, "KeyError: b'HEAD'")
	event(3, tooMany) // it was never visited
	record(3)
	for range 2 {
		if _, _, err := countReleased(t.Context(), store, noFudge, maxHeld); err != nil {
			t.Fatal(err)
		}
	}
	stats := "select right(url, 1) || ' ' || coalesce(last_visit_status::text, 'none') from origin_visit_stats where url < 'https://" + host + "/4' order by 1"
	if diff := cmp.Diff([]string{"0 successful", "1 successful", "2 failed", "3 none"}, table(t, dsn, stats)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	states, err := store.RefusingHosters(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, hoster := range []string{"gitea/forge", host} {
		s := states[hoster]
		if most, _ := s.Max(now.Add(3 * time.Second)); most != 4 || s.Kind != refusals.TooMany || !s.Until.Equal(now.Add(62*time.Second)) {
			t.Errorf("%s: %+v, want half of 8 for a minute", hoster, s)
		}
	}
	waiting := "select right(url, 1) from origin_visit_stats where last_scheduled is null or last_scheduled < last_visit and last_visit_status <> 'failed' order by 1"
	for _, c := range []struct {
		after time.Duration
		free  []string
	}{{time.Minute, []string{}}, {2 * time.Minute, []string{"0", "1", "3"}}} {
		if _, err := store.ReleaseRefused(t.Context(), now.Add(c.after), 10); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.free, table(t, dsn, waiting)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", c.after, diff)
		}
	}
	if err := store.ForgetRefusals(t.Context(), now.Add(9*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if rows := table(t, dsn, "select (select count(*) from scheduler_go.refused_visits) || ' ' || (select count(*) from scheduler_go.refusing_hosters)"); rows[0] != "0 0" {
		t.Errorf("%s rows are left", rows[0])
	}
}
