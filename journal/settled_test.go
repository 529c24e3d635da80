package journal

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// A refused visit is no failure of its origin if its record is read after Celery's task-succeeded and before the event with
// its result, or was read before the two. If the result doesn't come, it is one.
func TestRefusedVisitsDoNotCountBetweenTheirEvents(t *testing.T) {
	t.Parallel()
	hosters := model.Hosters{Backoff: &model.DefaultHosterBackoff}
	dsn := testenv.Database(t)
	store := testenv.Open(t, dsn)
	now := store.Now().Truncate(time.Second)
	execute(t, dsn, `insert into scheduler_go.work (task_id, state, since, claimed, task_name, args, kwargs, queue, home, hosters, url, visit_type)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'sent', now() - interval '1 minute', now() - interval '1 minute', 'x', '[]', '{}', 'q', 'q',
			'{git.example.org}', 'https://git.example.org/' || n, 'git' from generate_series(0, 2) n`)
	execute(t, dsn, `insert into origin_visit_stats (url, visit_type, last_scheduled, last_visit, last_visit_status)
		select url, visit_type, claimed, claimed - interval '3 days', 'successful' from scheduler_go.work`)
	status := func(n string) string {
		if _, _, err := countReleased(t.Context(), store, noFudge, maxHeld); err != nil {
			t.Fatal(err)
		}
		return table(t, dsn, "select last_visit_status::text from origin_visit_stats where url like '%/"+n+"'")[0]
	}
	for n, recordFirst := range map[string]bool{"0": true, "1": false, "2": true} {
		id := "00000000-0000-0000-0000-00000000000" + n
		apply := func(o settle.Outcome) {
			t.Helper()
			o.BackendID, o.Received = id, now.Add(2*time.Second)
			if err := (settle.Store{Store: store, Hosters: hosters}).ApplyOutcomes(t.Context(), []settle.Outcome{o}); err != nil {
				t.Fatal(err)
			}
		}
		record := func() {
			t.Helper()
			v := Visit{OriginKey: model.OriginKey{URL: "https://git.example.org/" + n, VisitType: "git"}, Date: now, Status: model.VisitFailed}
			if _, err := noFudge.Write(t.Context(), store, []Visit{v}); err != nil {
				t.Fatal(err)
			}
		}
		if recordFirst {
			record()
		}
		apply(settle.Outcome{Runtime: new(time.Second)}) // task-succeeded
		if !recordFirst {
			record()
		}
		if got := status(n); got != "successful" {
			t.Errorf("record first: %v: the last visit is %s before its result is known", recordFirst, got)
		}
		if n == "2" { // its result never comes
			execute(t, dsn, "delete from scheduler_go.work where task_id = '"+id+"'")
			if got := status(n); got != "failed" {
				t.Errorf("without a result the last visit is %s, want failed", got)
			}
			continue
		}
		apply(settle.Outcome{End: &settle.End{Status: model.RunFailed, Error: new("unexpected http resp 429 for https://git.example.org/a"), EventTime: model.UnixSeconds(now) + 1}})
		if got := status(n); got != "successful" {
			t.Errorf("record first: %v: a refused visit counts as %s", recordFirst, got)
		}
	}
}
