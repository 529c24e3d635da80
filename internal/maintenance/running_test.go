package maintenance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// Running work is listed, the oldest first, without what has ended since the job's last query.
func TestWhatRuns(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	job := Running(store)
	run := func() {
		t.Helper()
		if _, err := job.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{
		"insert into task_type (type, description, backend_name) values ('load', '', 'swh.load'), ('list', '', 'swh.list')",
		"insert into task (type, arguments, next_run, status, policy) select case n % 2 when 0 then 'load' else 'list' end, '{}', now(), 'next_run_scheduled', 'oneshot' from generate_series(1, 4) n",
		`insert into task_run (task, backend_id, scheduled, started, status) select id, 'run-' || id, now(), now() - id * interval '1 hour', case id when 3 then 'scheduled' else 'started' end::task_run_status from task`,
		"insert into scheduler_go.run_starts (run, event_time, worker, recorded) select id, 1, 'w' || id, started from task_run",
		`insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, share_group, cost, started) select gen_random_uuid(), 'sent', 'swh.load', 'swh.load', 'swh.load', '[]', '{"url": "https://a.example"}', now(), 'g', 1,
			case n when 1 then extract(epoch from now()) end from generate_series(1, 2) n`,
	} {
		testenv.Exec(t, store.Pool(), statement)
	}
	list := func(taskType, name string) (found string) {
		t.Helper()
		runs, visits, err := store.Running(t.Context(), taskType, name, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			found += fmt.Sprintf("%d %s %s %s, ", r.Task, r.Type, r.Worker, r.BackendID)
		}
		for _, v := range visits {
			found += v.URL
		}
		return found
	}
	run()
	if got, want := list("", ""), "4 load w4 run-4, 2 load w2 run-2, 1 list w1 run-1, https://a.example"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := list("list", "swh.list"), "1 list w1 run-1, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	testenv.Exec(t, store.Pool(), "update task_run set status = 'eventful', ended = now() where id = 4")
	if got, want := list("load", "none"), "2 load w2 run-2, "; got != want { // before the job runs again
		t.Errorf("%s, want %s", got, want)
	}
	run()
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.running"); n != 2 {
		t.Errorf("%d are listed", n)
	}
	counts, err := store.RunningByType(t.Context())
	if err != nil || counts["load"] != 1 || counts["list"] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
}

// Queries each 15 s read little. Yet whatever a transaction of less than five minutes writes is read, within five
// minutes of its end and a query.
func TestStartsAreRead(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type start struct{ recorded, visible time.Duration }
	var unread []start
	for range 1000 {
		s := start{recorded: time.Duration(rng.Int64N(int64(time.Hour)))}
		s.visible = s.recorded + time.Duration(rng.Int64N(int64(overlap)))
		if rng.IntN(2) == 0 {
			s.visible = s.recorded + time.Duration(rng.Int64N(int64(shortOverlap)))
		}
		unread = append(unread, s)
	}
	var read startsRead
	for at, pause := time.Duration(0), time.Duration(0); at < 90*time.Minute; at += pause {
		pause = 15*time.Second + time.Duration(rng.Int64N(int64(20*time.Second)))
		if rng.IntN(20) == 0 { // another process has the job meanwhile
			pause = time.Duration(rng.Int64N(int64(10 * time.Minute)))
		}
		now := begin.Add(at)
		spans := read.spans(now)
		total := time.Duration(0)
		for _, span := range spans {
			unread = slices.DeleteFunc(unread, func(s start) bool {
				recorded := begin.Add(s.recorded)
				return s.visible <= at && !recorded.Before(span.From) && recorded.Before(span.To)
			})
			total += min(now.Sub(span.From), span.To.Sub(span.From))
		}
		if since := now.Sub(read.last); at > 0 && since < overlap && total > 2*since+shortOverlap {
			t.Errorf("%v after the query before, one reads the starts of %v", since, total)
		}
		read.last = now
		for _, s := range unread {
			if quick := s.visible-s.recorded < shortOverlap; s.visible <= at && (quick || at-s.recorded > overlap) {
				t.Fatalf("at %v, a start of %v, visible from %v on, isn't read", at, s.recorded, s.visible)
			}
		}
	}
	if len(unread) > 0 {
		t.Errorf("%d starts were never read", len(unread))
	}
	if spans := read.spans(begin); len(spans) != 1 || spans[0].From != begin.Add(-48*time.Hour) {
		t.Errorf("with the clock set back by an hour, it reads %v", spans)
	}
}
