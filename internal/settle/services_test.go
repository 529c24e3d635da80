package settle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// outcomesStore is a store on a fresh database. The rules of its task types make each application visible.
func outcomesStore(t testing.TB) settle.Store {
	t.Helper()
	store := testenv.Open(t, testenv.Database(t))
	mustExec(t, settle.Store{Store: store}, `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval,
			backoff_factor, num_retries, retry_delay)
		values ('good', '', 'swh.test.Good', '64 days', '1 hour', '64 days', 2, 3, '2 hours'),
		       ('broken', '', 'swh.test.Broken', '1 day', '1 hour', '64 days', 0, 3, '2 hours')`)
	return settle.Store{Store: store}
}

func mustExec(t testing.TB, store settle.Store, query string, args ...any) {
	t.Helper()
	testenv.Exec(t, store.Pool(), query, args...)
}

// addTask makes a recurring task with scheduled runs of the given backend ids.
func addTask(t testing.TB, store settle.Store, taskType string, backendIDs ...string) (id int64) {
	t.Helper()
	id = testenv.Value[int64](t, store.Pool(), `
		insert into task (type, arguments, next_run, current_interval, status, retries_left)
		values ($1, '{"args": [], "kwargs": {}}', now(), '64 days', 'next_run_scheduled', 3) returning id`, taskType)
	for _, b := range backendIDs {
		mustExec(t, store, `insert into task_run (task, backend_id, scheduled) values ($1, $2, now())`, id, b)
	}
	return id
}

// run has the columns of task_run that the tests check.
type run struct {
	Status   string
	Metadata map[string]any
	Started  *time.Time
	Ended    *time.Time
}

func readRun(t testing.TB, store settle.Store, backendID string) run {
	t.Helper()
	return testenv.Row[run](t, store.Pool(), `select status::text, metadata, started, ended from task_run where backend_id = $1`, backendID)
}

// readTask returns the state of a task after the trigger: its status, its interval in days (halved by each success)
// and its retries left (one fewer after each failure).
func readTask(t testing.TB, store settle.Store, id int64) (state string) {
	t.Helper()
	return testenv.Value[string](t, store.Pool(), `
		select format('%s, %s days, %s retries', status, (extract(epoch from current_interval) / 86400)::float, retries_left)
		from task where id = $1`, id)
}

// at returns a moment for a test's event.
func at(second int) time.Time { return time.Date(2026, 5, 1, 12, 0, second, 0, time.UTC) }

func ptr[T any](v T) *T { return &v }

func started(id, worker string, second int) settle.Outcome {
	return settle.Outcome{BackendID: id, Received: at(second), Start: &settle.Start{Worker: &worker, EventTime: float64(second)}}
}

func ended(id string, status model.RunStatus, second int) settle.Outcome {
	return settle.Outcome{BackendID: id, Received: at(second), End: &settle.End{Status: status}}
}

func failed(id, message string, second int) settle.Outcome {
	return settle.Outcome{BackendID: id, Received: at(second), End: &settle.End{Status: model.RunFailed, Error: &message}}
}

func apply(t testing.TB, store settle.Store, outcomes ...settle.Outcome) {
	t.Helper()
	if err := store.ApplyOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

// The run and its task end as after the ordered stream, in every order and partition of its events into batches, and
// with every repetition.
func TestApplyOutcomes(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	w1, w2 := map[string]any{"worker": "w1"}, map[string]any{"worker": "w2"}
	for name, c := range map[string]struct {
		batches [][]settle.Outcome
		want    run
		task    string
	}{
		"started": {
			[][]settle.Outcome{{started("", "w1", 1)}},
			run{"started", w1, ptr(at(1)), nil}, "next_run_scheduled, 64 days, 3 retries",
		},
		"started twice": {
			[][]settle.Outcome{{started("", "w1", 1), started("", "w1", 1)}, {started("", "w1", 1)}},
			run{"started", w1, ptr(at(1)), nil}, "next_run_scheduled, 64 days, 3 retries",
		},
		"started again by a retry": {
			[][]settle.Outcome{{started("", "w1", 1)}, {started("", "w2", 2)}},
			run{"started", w2, ptr(at(2)), nil}, "next_run_scheduled, 64 days, 3 retries",
		},
		"the retry's start comes first": {
			[][]settle.Outcome{{started("", "w2", 2)}, {started("", "w1", 1)}},
			run{"started", w2, ptr(at(2)), nil}, "next_run_scheduled, 64 days, 3 retries",
		},
		"the retry's start comes first in a batch": {
			[][]settle.Outcome{{started("", "w2", 2), started("", "w1", 1)}},
			run{"started", w2, ptr(at(2)), nil}, "next_run_scheduled, 64 days, 3 retries",
		},
		"a start without a worker": {
			[][]settle.Outcome{{{Received: at(1), Start: &settle.Start{}}}},
			run{"started", map[string]any{"worker": nil}, ptr(at(1)), nil}, "next_run_scheduled, 64 days, 3 retries",
		},
		"started and ended": {
			[][]settle.Outcome{{started("", "w1", 1)}, {ended("", "eventful", 2)}},
			run{"eventful", w1, ptr(at(1)), ptr(at(2))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"started and ended in one batch": {
			[][]settle.Outcome{{started("", "w1", 1), ended("", "uneventful", 2)}},
			run{"uneventful", w1, ptr(at(1)), ptr(at(2))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"ended before started in one batch": {
			[][]settle.Outcome{{ended("", "uneventful", 1), started("", "w1", 2)}},
			run{"uneventful", w1, ptr(at(1)), ptr(at(1))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"ended before started": {
			[][]settle.Outcome{{ended("", "eventful", 1)}, {started("", "w1", 2)}, {started("", "w1", 2)}},
			run{"eventful", w1, ptr(at(1)), ptr(at(1))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"a retry's start after the end": {
			[][]settle.Outcome{{started("", "w1", 1), ended("", "eventful", 3)}, {started("", "w2", 2)}},
			run{"eventful", w2, ptr(at(1)), ptr(at(3))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"never started": {
			[][]settle.Outcome{{ended("", "permfailed", 1)}},
			run{"permfailed", map[string]any{}, nil, ptr(at(1))}, "disabled, 64 days, 3 retries",
		},
		"ended many times": {
			[][]settle.Outcome{{ended("", "eventful", 1), ended("", "eventful", 2)}, {ended("", "eventful", 3)}},
			run{"eventful", map[string]any{}, nil, ptr(at(1))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"failed many times": {
			[][]settle.Outcome{{failed("", "no", 1), failed("", "no", 1)}, {failed("", "no", 2)}, {failed("", "no", 3)}},
			run{"failed", map[string]any{"error": "no"}, nil, ptr(at(1))}, "next_run_not_scheduled, 64 days, 2 retries",
		},
		"failed in two ways, in one batch": {
			[][]settle.Outcome{{failed("", "no", 1), failed("", "later", 2)}},
			run{"failed", map[string]any{"error": "no"}, nil, ptr(at(1))}, "next_run_not_scheduled, 64 days, 2 retries",
		},
		"the first of two contrary ends counts": {
			[][]settle.Outcome{{ended("", "eventful", 1), failed("", "lost", 2)}, {failed("", "lost", 3)}},
			run{"eventful", map[string]any{}, nil, ptr(at(1))}, "next_run_not_scheduled, 32 days, 3 retries",
		},
		"rejected, then failed with an error": {
			[][]settle.Outcome{{ended("", "failed", 1)}, {failed("", "no", 2)}, {failed("", "later", 3)}},
			run{"failed", map[string]any{"error": "no"}, nil, ptr(at(1))}, "next_run_not_scheduled, 64 days, 2 retries",
		},
		"rejected, then failed with an error, in one batch": {
			[][]settle.Outcome{{ended("", "failed", 1), failed("", "no", 2), failed("", "later", 3)}},
			run{"failed", map[string]any{"error": "no"}, nil, ptr(at(1))}, "next_run_not_scheduled, 64 days, 2 retries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := addTask(t, store, "good", name)
			for _, batch := range c.batches {
				for i := range batch {
					batch[i].BackendID = name
				}
				apply(t, store, batch...)
			}
			if diff := cmp.Diff(c.want, readRun(t, store, name)); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
			if got := readTask(t, store, task); got != c.task {
				t.Errorf("task: %s, want %s", got, c.task)
			}
		})
	}
}

// A task whose run timed out in the last lane waits for its next regular run. If the lane is retried, the task has
// one retry less instead.
func TestTimeOutInTheLastLane(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	for name, c := range map[string]struct {
		retried bool
		want    string
	}{
		"final":   {false, "next_run_not_scheduled, 64 days, 3 retries, regular"},
		"retried": {true, "next_run_not_scheduled, 64 days, 2 retries, soon"},
	} {
		id := uuid.NewString()
		task := addTask(t, store, "good", id)
		mustExec(t, store, `insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs,
				lane_set, lane, lane_name, lanes_left, retried, soft_limit, memory, lister, first, behind)
			values ($1, 'sent', 'q', 'q', now(), 't', '[]', '{}', 'good', 1, 'slow', 0, $2, 60, 1, '', true, 0)`, id, c.retried)
		now := time.Now()
		apply(t, store, settle.Outcome{BackendID: id, Received: now, End: &settle.End{Status: model.RunFailed, TimedOut: true}})
		next := testenv.Value[string](t, store.Pool(), "select case when next_run > now() + interval '1 day' then 'regular' else 'soon' end from task where id = $1", task)
		if got := readTask(t, store, task) + ", " + next; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A run that an operator revoked is not retried. The worker may report the revocation before or after the failure
// that it caused, in one batch or in two, and repeatedly.
func TestRevokedRunsAreNotRetried(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	revoke := func(second int) settle.Outcome {
		o := failed("", "revoked", second)
		o.End.Final = settle.Revoked
		return o
	}
	rejected := func(second int) settle.Outcome {
		o := ended("", model.RunFailed, second)
		o.End.Final = settle.Rejected
		return o
	}
	const (
		done    = "disabled"
		regular = "next_run_not_scheduled, next in 5529600 s, 3 retries" // 64 days
		retried = "next_run_not_scheduled, next in 7200 s, 2 retries"
	)
	for name, c := range map[string]struct {
		batches            [][]settle.Outcome
		oneshot, recurring string
		metadata           map[string]any
	}{
		"revoked":                 {[][]settle.Outcome{{revoke(1)}}, done, regular, map[string]any{"error": "revoked", "not_retried": "revoked"}},
		"revoked twice":           {[][]settle.Outcome{{revoke(1), revoke(1)}, {revoke(2)}}, done, regular, map[string]any{"error": "revoked", "not_retried": "revoked"}},
		"revoked, then failed":    {[][]settle.Outcome{{revoke(1)}, {failed("", "no", 2)}}, done, regular, map[string]any{"error": "revoked", "not_retried": "revoked"}},
		"failed and revoked":      {[][]settle.Outcome{{failed("", "no", 1), revoke(2)}}, done, regular, map[string]any{"error": "no", "not_retried": "revoked"}},
		"failed, then revoked":    {[][]settle.Outcome{{failed("", "no", 1)}, {revoke(2)}, {revoke(2)}}, done, regular, map[string]any{"error": "no", "not_retried": "revoked"}},
		"failed":                  {[][]settle.Outcome{{failed("", "no", 1)}}, retried, retried, map[string]any{"error": "no"}},
		"rejected":                {[][]settle.Outcome{{rejected(1)}, {rejected(1)}}, done, regular, map[string]any{"not_retried": "rejected"}},
		"rejected as it failed":   {[][]settle.Outcome{{rejected(1), failed("", "no", 1)}}, retried, retried, map[string]any{"error": "no"}},
		"failed, then rejected":   {[][]settle.Outcome{{failed("", "no", 1)}, {rejected(1)}}, retried, retried, map[string]any{"error": "no"}},
		"done, and revoked later": {[][]settle.Outcome{{ended("", "eventful", 1)}, {revoke(2)}}, "completed", "next_run_not_scheduled, next in 2764800 s, 3 retries", map[string]any{}},
	} {
		for policy, want := range map[string]string{"oneshot": c.oneshot, "recurring": c.recurring} {
			id := policy + " " + name
			task := addTask(t, store, "good", id)
			mustExec(t, store, "update task set policy = $2::task_policy, next_run = $3 where id = $1", task, policy, at(1))
			for _, batch := range c.batches {
				batch = slices.Clone(batch)
				for i := range batch {
					batch[i].BackendID = id
				}
				apply(t, store, batch...)
			}
			got := testenv.Value[string](t, store.Pool(), `
				select status || case status when 'next_run_not_scheduled' then format(', next in %s s, %s retries', extract(epoch from next_run - $2)::int, retries_left) else '' end
				from task where id = $1`, task, at(1))
			if got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
			if diff := cmp.Diff(c.metadata, readRun(t, store, id).Metadata); diff != "" {
				t.Errorf("%s: metadata (-want +got):\n%s", id, diff)
			}
		}
	}
}

// A retry that is already underway is left alone, and so is a task that an operator moved.
func TestLateRevocationChangesNothingThatMovedOn(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	for name, query := range map[string]string{
		"sent again": "with t as (update task set status = 'next_run_scheduled' where id = $1 returning id) insert into task_run (task, backend_id, scheduled) select id, id::text, now() from t",
		"moved":      "update task set next_run = next_run + interval '1 minute' where id = $1",
		"suspended":  "update task set status = 'disabled' where id = $1",
	} {
		task := addTask(t, store, "good", name)
		apply(t, store, failed(name, "no", 1))
		mustExec(t, store, query, task)
		before := readTask(t, store, task)
		o := failed(name, "revoked", 2)
		o.End.Final = settle.Revoked
		apply(t, store, o)
		if got := readTask(t, store, task); got != before {
			t.Errorf("%s: %s, was %s", name, got, before)
		}
	}
}

// On lanes, a revoked run is no time-out, whatever its runtime. A group is not charged for work that no worker
// started.
func TestRevokedWorkIsNoTimeOut(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	id := uuid.NewString()
	task := addTask(t, store, "good", id)
	mustExec(t, store, `insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs,
			lane_set, lane, lane_name, lanes_left, retried, soft_limit, memory, lister, first, behind)
		values ($1, 'sent', 'q', 'q', now(), 't', '[]', '{}', 'good', 0, 'express', 1, false, 60, 1, '', true, 0)`, id)
	apply(t, store, started(id, "w1", 1))
	apply(t, store, settle.Outcome{BackendID: id, Received: at(0).Add(time.Hour), End: &settle.End{Status: model.RunFailed, TimedOut: true, Final: settle.Revoked, EventTime: 3600}})
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.work"); n != 0 {
		t.Errorf("%d messages left, want none", n)
	}
	if got := readTask(t, store, task); got != "next_run_not_scheduled, 64 days, 3 retries" {
		t.Errorf("%s", got)
	}
	shared := uuid.NewString()
	mustExec(t, store, `insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs, share_group, cost)
		values ($1, 'sent', 'q', 'q', now(), 't', '[]', '{}', 'a', 100)`, shared)
	apply(t, store, settle.Outcome{BackendID: shared, Received: at(1), End: &settle.End{Status: model.RunFailed, Final: settle.Revoked, Unstarted: true}})
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.work"); n != 0 {
		t.Errorf("%d messages of groups left, want none", n)
	}
}

// Events with another spelling of a message's id are ignored, alone and in a batch with events of the right id.
func TestOtherSpellingsWriteNothing(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	const id = "abcdef00-1234-4abc-8def-0123456789ab"
	task := addTask(t, store, "good", id)
	mustExec(t, store, `insert into scheduler_go.work (task_id, state, queue, home, since, task_name, args, kwargs, share_group, cost)
		values ($1, 'sent', 'q', 'q', now(), 't', '[]', '{}', 'a', 10)`, id)
	var others []settle.Outcome
	for _, text := range []string{strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", "")} {
		others = append(others, started(text, "w1", 1), ended(text, "eventful", 2))
	}
	apply(t, store, others...)
	left := func() int {
		return testenv.Value[int](t, store.Pool(), `select count(*) from scheduler_go.work where state = 'sent' and started is null`)
	}
	if got := readRun(t, store, id).Status; got != "scheduled" || left() != 1 {
		t.Errorf("the run is %s, %d messages left", got, left())
	}
	apply(t, store, append(others, ended(id, "eventful", 3))...)
	if got := readTask(t, store, task); got != "next_run_not_scheduled, 32 days, 3 retries" || left() != 0 {
		t.Errorf("%s, %d messages left", got, left())
	}
}

// A run keeps its earlier metadata, as in the Python scheduler.
func TestApplyOutcomesKeepsMetadata(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	addTask(t, store, "good", "a")
	mustExec(t, store, `update task_run set metadata = '{"worker": "old", "x": 1}'`)
	apply(t, store, started("a", "w1", 1), failed("a", "no", 2))
	want := map[string]any{"worker": "w1", "error": "no", "x": 1.0}
	if diff := cmp.Diff(want, readRun(t, store, "a").Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// Several runs of one task that end in one batch move it on one after the other, in the order of their ends, as they
// do in a batch each.
func TestApplyOutcomesOfOneTask(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	ends := []model.RunStatus{"failed", "eventful", "failed", "failed", "uneventful", "failed", "permfailed", "failed"}
	ids := func(prefix string) (ids []string) {
		for i := range ends {
			// The order of the rows is not that of the ends.
			ids = append(ids, fmt.Sprint(prefix, (i*5)%len(ends)))
		}
		return ids
	}
	one := addTask(t, store, "good", ids("one")...)
	many := addTask(t, store, "good", ids("many")...)
	var batch []settle.Outcome
	for i, status := range ends {
		batch = append(batch, ended(fmt.Sprint("one", i), status, i))
		apply(t, store, ended(fmt.Sprint("many", i), status, i))
	}
	apply(t, store, batch...)
	if got, want := readTask(t, store, one), readTask(t, store, many); got != want {
		t.Errorf("after one batch: %s; after many: %s", got, want)
	}
}

// The same ends in batches that overlap, each begun once the one before it has its locks, move the task on in the same order.
func TestApplyInTurnKeepsTheOrder(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	ends := []model.RunStatus{"failed", "eventful", "failed", "failed", "uneventful", "failed", "permfailed", "failed"}
	var ids, other []string
	for i := range ends {
		ids, other = append(ids, fmt.Sprint("overlaps", (i*5)%len(ends))), append(other, fmt.Sprint("follows", (i*5)%len(ends)))
	}
	overlaps, follows := addTask(t, store, "good", ids...), addTask(t, store, "good", other...)
	failed := make(chan error, len(ends))
	var release, previous chan struct{} // of the newest batch and the one before it
	for i, status := range ends {
		locked := make(chan struct{})
		previous, release = release, make(chan struct{})
		hold := release
		go func() {
			failed <- store.ApplyInTurn(t.Context(), []settle.Outcome{ended(fmt.Sprint("overlaps", i), status, i)}, sync.OnceFunc(func() {
				close(locked)
				<-hold
			}))
		}()
		if previous != nil {
			testenv.Becomes(t, "the batch waits for the one before it", true, func() bool {
				return testenv.Value[bool](t, store.Pool(), "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
			})
			close(previous)
		}
		select {
		case <-locked:
		case <-time.After(testenv.Patience):
			t.Fatalf("batch %d doesn't lock its rows", i)
		}
	}
	close(release)
	for range ends {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for i, status := range ends {
		apply(t, store, ended(fmt.Sprint("follows", i), status, i))
	}
	if got, want := readTask(t, store, overlaps), readTask(t, store, follows); got != want {
		t.Errorf("after batches that overlap: %s; that follow each other: %s", got, want)
	}
}

// Events of runs of other senders (recurrent visits have none) write nothing.
func TestApplyOutcomesOfUnknownRuns(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	apply(t, store, started("x", "w1", 1), ended("x", "eventful", 2), settle.Outcome{BackendID: "x", Received: at(2), Runtime: ptr(time.Second)})
	err := store.RejectEvents(t.Context(), []db.RejectedEvent{{BackendID: "x", Received: at(1)}})
	if err != nil {
		t.Fatal(err)
	}
	if rows := testenv.Value[int](t, store.Pool(), `select (select count(*) from scheduler_go.run_starts)
		+ (select count(*) from scheduler_go.run_durations) + (select count(*) from scheduler_go.rejected_events)`); rows != 0 {
		t.Errorf("%d rows written", rows)
	}
}

// An error of the data differs from one of an unavailable service. After either, nothing of the batch is written.
func TestApplyOutcomesRefused(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	addTask(t, store, "good", "a")
	addTask(t, store, "broken", "b") // its backoff factor is zero: the trigger divides by it
	err := store.ApplyOutcomes(t.Context(), []settle.Outcome{ended("a", "eventful", 1), ended("b", "eventful", 1)})
	var refused *postgres.RefusedError
	if !errors.As(err, &refused) || refused.SQLState != "22012" {
		t.Errorf("error %v, want a refusal because of a division by zero", err)
	}
	if got := readRun(t, store, "a").Status; got != "scheduled" {
		t.Errorf("the other run is %s, want scheduled", got)
	}
	mustExec(t, store, `alter table scheduler_go.run_starts rename to elsewhere`)
	err = store.ApplyOutcomes(t.Context(), []settle.Outcome{started("a", "w1", 1)})
	if err == nil || errors.As(err, &refused) {
		t.Errorf("error %v, want one that blames no outcome", err)
	}
}

// The runtime of a run is recorded once, with its type.
func TestRunDurations(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	addTask(t, store, "good", "a")
	took := func(d time.Duration) settle.Outcome {
		return settle.Outcome{BackendID: "a", Received: at(1), Runtime: &d}
	}
	apply(t, store, took(1500*time.Millisecond), took(time.Second))
	apply(t, store, took(time.Minute))
	if got := testenv.Column[string](t, store.Pool(), `select type || ' ' || runtime from scheduler_go.run_durations`); !slices.Equal(got, []string{"good 1.5"}) {
		t.Errorf("durations %v", got)
	}
}

// Old rows beside the Python scheduler's tables are deleted.
func TestForget(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	addTask(t, store, "good", "a")
	addTask(t, store, "good", "b")
	runtime := time.Second
	apply(t, store, started("a", "w1", 1), started("b", "w1", 9),
		settle.Outcome{BackendID: "a", Received: at(1), Runtime: &runtime}, settle.Outcome{BackendID: "b", Received: at(9), Runtime: &runtime})
	testenv.Exec(t, store.Pool(), "update scheduler_go.run_starts s set recorded = case r.backend_id when 'a' then $1::timestamptz else $2 end from task_run r where r.id = s.run", at(1), at(9))
	if _, err := store.Forget(t.Context(), at(5).Add(48*time.Hour), time.Minute); err != nil {
		t.Fatal(err)
	}
	events := make([]db.RejectedEvent, 5010)
	for i := range events {
		events[i] = db.RejectedEvent{BackendID: "a", Received: at(i)}
	}
	if err := store.RejectEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	var starts, durations, rejected int
	err := store.Pool().QueryRow(t.Context(), `select (select count(*) from scheduler_go.run_starts),
		(select count(*) from scheduler_go.run_durations), (select count(*) from scheduler_go.rejected_events)`).
		Scan(&starts, &durations, &rejected)
	if err != nil || starts != 1 || durations != 2 || rejected != 5000 {
		t.Errorf("%d starts, %d durations, %d rejected events kept, error %v", starts, durations, rejected, err)
	}
}

// Listeners that get the same runs in different batches and orders neither deadlock nor apply an end twice.
func TestApplyOutcomesConcurrently(t *testing.T) {
	t.Parallel()
	store := outcomesStore(t)
	const tasks, rounds = 20, 15
	var ids []int64
	var outcomes []settle.Outcome
	for i := range tasks {
		// Two runs a task, so that runs and tasks are locked in crossing orders.
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", tasks-i)
		ids = append(ids, addTask(t, store, "good", a, b))
		for _, id := range []string{a, b} {
			outcomes = append(outcomes, ended(id, "eventful", 2), started(id, "w1", 1), ended(id, "eventful", 3))
		}
	}
	errs := make(chan error)
	for worker := range 4 {
		go func() {
			errs <- applyRotated(t.Context(), store, outcomes, worker, rounds)
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		if got, want := readTask(t, store, id), "next_run_not_scheduled, 16 days, 3 retries"; got != want {
			t.Errorf("task %d: %s, want %s", id, got, want)
		}
	}
	if n := deadlocks(t, store.Pool()); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func applyRotated(ctx context.Context, store settle.Store, outcomes []settle.Outcome, worker, rounds int) error {
	for round := range rounds {
		shift := (worker*31 + round*17) % len(outcomes)
		batch := append(slices.Clone(outcomes[shift:]), outcomes[:shift]...)
		if worker%2 == 1 {
			slices.Reverse(batch)
		}
		if err := store.ApplyOutcomes(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func deadlocks(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	return testenv.Value[int](t, pool, `select deadlocks from pg_stat_database where datname = current_database()`)
}
