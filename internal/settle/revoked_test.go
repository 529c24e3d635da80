package settle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/graphs"
)

func revoked(id string, second int) settle.Outcome {
	o := failed(id, "revoked", second)
	o.End.Final = settle.Revoked
	return o
}

func rejected(id string, second int) settle.Outcome {
	o := ended(id, model.RunFailed, second)
	o.End.Final = settle.Rejected
	return o
}

// A task of a graph whose run was revoked has failed for good. Dependents that need its success can't run, those
// that need its failure run, and deadlines don't change that. If the failure was applied first, nothing runs until
// the revocation is applied.
func TestRevokedTasksOfGraphs(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	const waits = "waiting waiting waiting waiting waiting"
	const over = "dependency dependency ready waiting waiting"
	for name, c := range map[string]struct {
		batches [][]settle.Outcome
		want    []string // states of the dependents, after each batch
	}{
		"revoked":                  {[][]settle.Outcome{{revoked("", 1)}}, []string{over}},
		"rejected":                 {[][]settle.Outcome{{rejected("", 1)}}, []string{over}},
		"failed":                   {[][]settle.Outcome{{failed("", "no", 1)}}, []string{waits}},
		"failed and revoked":       {[][]settle.Outcome{{failed("", "no", 1), revoked("", 2)}}, []string{over}},
		"failed, then revoked":     {[][]settle.Outcome{{failed("", "no", 1)}, {revoked("", 2)}}, []string{waits, over}},
		"revoked, then started":    {[][]settle.Outcome{{revoked("", 1)}, {started("", "w", 2)}}, []string{over, over}},
		"revoked, then successful": {[][]settle.Outcome{{revoked("", 1)}, {ended("", "eventful", 2)}}, []string{over, over}},
		"rejected, but it failed":  {[][]settle.Outcome{{failed("", "no", 1)}, {rejected("", 2)}}, []string{waits, waits}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			on := func(deadline time.Time, condition graphs.Condition, places ...int) (n graphs.NewTask) {
				n.Type, n.Deadline = "good", deadline
				for _, place := range places {
					n.DependsOn = append(n.DependsOn, graphs.NewDependency{Place: place, On: condition})
				}
				return n
			}
			tasks := []graphs.NewTask{
				on(time.Time{}, ""),                           // the revoked task
				on(time.Time{}, graphs.OnCompleted, 0),        // needs it
				on(now.Add(time.Hour), graphs.OnCompleted, 1), // needs that, by a deadline
				on(now.Add(time.Hour), graphs.OnFailed, 1),    // cleans up
				on(time.Time{}, graphs.OnResolved, 3),         // reports
				on(time.Time{}, graphs.OnFailed, 3),           // runs if the clean-up fails
			}
			for i := range tasks {
				tasks[i].Name = fmt.Sprint(i)
			}
			g, err := store.SubmitGraph(t.Context(), graphs.NewGraph{Tasks: tasks}, now)
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, store, `with t as (update task set status = 'next_run_scheduled' where id = $1 returning id)
				insert into task_run (task, backend_id, scheduled) select id, $2, now() from t`, g.Tasks[0], name)
			for i, batch := range c.batches {
				for j := range batch {
					batch[j].BackendID = name
				}
				apply(t, store, batch...)
				for more := true; more; {
					round, err := store.AdvanceGraphs(t.Context(), now.Add(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					more = round.More
				}
				states, err := store.GraphTasks(t.Context(), g.ID)
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				for _, task := range states[1:] {
					got += " " + string(task.State)
				}
				if got != " "+c.want[i] {
					t.Errorf("after batch %d:%s, want %s", i, got, c.want[i])
				}
			}
		})
	}
}

// A task that an operator disabled stays disabled when its run ends by a revocation or a rejection. Other ends of
// runs enable a recurring task again, as in the Python scheduler.
func TestRevokedRunsLeaveTasksDisabled(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	for name, c := range map[string]struct {
		batch []settle.Outcome
		want  string
	}{
		"revoked":            {[]settle.Outcome{revoked("", 1)}, "disabled"},
		"failed and revoked": {[]settle.Outcome{failed("", "no", 1), revoked("", 1)}, "disabled"},
		"rejected":           {[]settle.Outcome{rejected("", 1)}, "disabled"},
		"failed":             {[]settle.Outcome{failed("", "no", 1)}, "next_run_not_scheduled"},
		"eventful":           {[]settle.Outcome{ended("", "eventful", 1)}, "next_run_not_scheduled"},
	} {
		task := addTask(t, store, "good", "disabled "+name)
		mustExec(t, store, "update task set status = 'disabled' where id = $1", task)
		beside := addTask(t, store, "good", "enabled "+name)
		var batch []settle.Outcome
		for _, kind := range []string{"disabled ", "enabled "} {
			for _, o := range c.batch {
				o.BackendID = kind + name
				batch = append(batch, o)
			}
		}
		apply(t, store, batch...)
		status := "select status::text from task where id = $1"
		if got := testenv.Value[string](t, store.Pool(), status, task); got != c.want {
			t.Errorf("%s: the task is %s, want %s", name, got, c.want)
		}
		if got := testenv.Value[string](t, store.Pool(), status, beside); got != "next_run_not_scheduled" {
			t.Errorf("%s: a task that was not disabled is %s", name, got)
		}
	}
}

// A run that was given up before its revocation arrives isn't retried either.
func TestLostRunsThatWereRevoked(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	for policy, want := range map[string]string{"oneshot": "disabled, 64 days, 0 retries, later", "recurring": "next_run_not_scheduled, 64 days, 3 retries, later"} {
		task := addTask(t, store, "good", policy)
		mustExec(t, store, "update task set policy = $2::task_policy where id = $1", task, policy)
		mustExec(t, store, "update task_run set status = 'lost', ended = now() where backend_id = $1", policy)
		apply(t, store, revoked(policy, 1))
		got := readTask(t, store, task) + testenv.Value[string](t, store.Pool(), `select case when status = 'disabled' or next_run > now() + interval '1 day' then ', later' else ', soon' end from task where id = $1`, task)
		if got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
	}
}

// On lanes, a visit whose message was revoked is not requeued on another lane. If it had begun and the journal has
// its failed visit, that visit counts once, as without lanes. Otherwise nothing counts, and no row is left. Work
// that was requeued on the next lane after a time-out is revoked by its new id.
func TestRevokedVisitsOnLanes(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	visit := func(url string, left int) string {
		id := uuid.NewString()
		mustExec(t, store, `insert into scheduler_go.work (task_id, state, queue, home, since, claimed, task_name, args, kwargs,
				lane_set, lane, lane_name, lanes_left, retried, soft_limit, memory, lister, first, behind, url, visit_type)
			values ($1, 'sent', 'q', 'q', now(), now(), 't', '[]', '{}', 'load-git', 0, 'express', $3, false, 60, 1, '', true, 0, $2, 'git')`, id, url, left)
		return id
	}
	hold := func(id, url string) {
		mustExec(t, store, "insert into scheduler_go.held_visits (task_id, url, visit_type, date) values ($1, $2, 'git', now())", id, url)
	}
	counts := func(want ...string) {
		t.Helper()
		released, err := store.ReleasedVisits(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range released {
			got = append(got, r.URL)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("visits that count (-want +got):\n%s", diff)
		}
	}
	count := func(from string) int {
		t.Helper()
		return testenv.Value[int](t, store.Pool(), "select count(*) from "+from)
	}

	// Revoked in its queue.
	waiting := visit("https://waiting", 1)
	apply(t, store, settle.Outcome{BackendID: waiting, Received: at(1), End: &settle.End{Status: model.RunFailed, Final: settle.Revoked, Unstarted: true}})
	counts()

	// Terminated while it ran: the loader wrote its failure first.
	running := visit("https://running", 1)
	hold(running, "https://running")
	apply(t, store, started(running, "w", 1))
	counts()
	apply(t, store, revoked(running, 2))
	counts("https://running")
	mustExec(t, store, "delete from scheduler_go.held_visits")
	if n := count("scheduler_go.work where state <> 'settled'"); n != 0 {
		t.Errorf("%d messages go on", n)
	}

	// It timed out and was requeued on the next lane, where it is revoked.
	over := visit("https://over", 1)
	hold(over, "https://over")
	apply(t, store, settle.Outcome{BackendID: over, Received: at(1), End: &settle.End{Status: model.RunFailed, TimedOut: true}})
	counts()
	next := testenv.Value[string](t, store.Pool(), "select task_id::text from scheduler_go.work where url = 'https://over'")
	if next == over {
		t.Fatal("the time-out put nothing on the next lane")
	}
	mustExec(t, store, "update scheduler_go.work set state = 'sent', lane = 1, lanes_left = 0 where task_id = $1", next)
	apply(t, store, revoked(next, 3))
	counts()
	if n, held := count("scheduler_go.work where state <> 'settled'"), count("scheduler_go.held_visits"); n+held != 0 {
		t.Errorf("%d messages go on, %d visits are held", n, held)
	}
}
