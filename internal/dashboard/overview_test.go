package dashboard

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

// endedRows inserts work that ended in a minute: minutes ago, source, type, status, exception, number.
const endedRows = "insert into scheduler_go.ended (minute, source, type, status, exception, bucket, part, pieces, seconds) select date_trunc('minute', now()) - ago * interval '1 minute', source, type, status, exception, 20, 0, n, n from (values "

// If most of what ended fails, the overview and the queue's page name the type and its main exception. They count the
// last five minutes, not the hour, and link to these failures. A few failures, or old ones, are no problem.
func TestMassFailureIsAProblem(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name, max_queue_length) select t, '', 'swh.' || t, 10 from unnest(array['load-git', 'load-svn', 'load-hg', 'list-git', 'index']) t",
		endedRows+`(30, 'worker', 'load-git', 'eventful', '', 500), (30, 'worker', 'load-git', 'failed', 'NotFound', 90), (2, 'worker', 'load-git', 'failed', 'NotGitRepository', 30), (2, 'worker', 'load-git', 'failed', 'OSError', 11),
			(2, 'journal', 'git', 'failed', '', 41), (30, 'journal', 'git', 'eventful', '', 500),
			(2, 'journal', 'svn', 'failed', '', 12), (2, 'journal', 'svn', 'not_found', '', 5),
			(2, 'worker', 'list-git', 'failed', 'OSError', 9), (2, 'worker', 'load-hg', 'failed', '', 12), (20, 'worker', 'index', 'failed', 'OSError', 99), (2, 'worker', 'index', 'eventful', '', 20)) v (ago, source, type, status, exception, n)`)
	o := read[overviewData](s, "/")
	var fails []string
	for _, p := range o.Problems {
		if p.Alert == "FailureRateHigh" {
			fails = append(fails, p.Text+" "+p.Page)
		}
	}
	want := []string{
		"Of load-git, 41 of the 41 that ended in five minutes failed, most by NotGitRepository. " + errorPath("load-git", "NotGitRepository"),
		"Of load-hg, 12 of the 12 that ended in five minutes failed, without an exception. " + errorPath("load-hg", ""),
		"Of load-svn, 12 of the 17 visits that ended in five minutes failed. " + typePath("load-svn"),
	}
	if !slices.Equal(fails, want) {
		t.Errorf("%q, want %q", fails, want)
	}
	s.has("/", `<a href="/errors?exception=%28none%29&amp;type=load-hg">no exception</a> (12)`)
	s.has("/queue?name=swh.load-git", `<a href="/errors?exception=NotGitRepository&amp;type=load-git">Of load-git, 41 of the 41 that ended in five minutes failed, most by NotGitRepository.`)
}

// A failed visit counts once, though both events and the journal record it. An origin that wasn't found has not failed.
func TestFailuresOfTheHourCountOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name) select t, '', 'swh.' || t from unnest(array['load-git', 'load-svn', 'list-git']) t",
		endedRows+`(2, 'worker', 'load-git', 'failed', 'OSError', 10), (2, 'journal', 'git', 'failed', '', 7), (2, 'journal', 'git', 'not_found', '', 100),
			(2, 'worker', 'list-git', 'failed', 'OSError', 3), (2, 'journal', 'hg', 'failed', '', 5)) v (ago, source, type, status, exception, n)`)
	o := read[overviewData](s, "/")
	if o.Flow.FailedInAHour != 10+3+5 {
		t.Errorf("%d failed in the hour, want 18", o.Flow.FailedInAHour)
	}
	for _, v := range o.Visits {
		if v.Type == "git" && v.Failed != 7 {
			t.Errorf("of git %d failed, want 7", v.Failed)
		}
	}
}

// A number of failures doesn't link to a list with a different number.
func TestFailuresAreNoLinkToDisabledTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name) values ('list-git', '', 'swh.list')",
		endedRows+`(2, 'worker', 'list-git', 'failed', 'OSError', 50)) v (ago, source, type, status, exception, n)`)
	if body := s.has("/", `<span class="bad">50</span>`); strings.Contains(body, "status=disabled") {
		t.Error("the failures lead to the disabled tasks")
	}
}

// Tasks that workers run count as running, even if the worker acknowledges early and no message is unacknowledged.
func TestTasksOfWorkersCountAsRunning(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.now.queues.read = func(context.Context) ([]status.Queue, error) {
		return []status.Queue{{Queue: "q", Unacknowledged: new(1), Consumers: 1}}, nil
	}
	state := db.DaemonState{Workers: map[string]db.Worker{"celery@a": {LastEvent: time.Now(), Active: 2}, "celery@b": {LastEvent: time.Now(), Active: 3}}}
	for range 2 { // two listeners report the same workers
		if err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: "start-listener", Host: "h", Started: time.Now(), State: state}); err != nil {
			t.Fatal(err)
		}
	}
	// A listener that died keeps what it reported last.
	state.Workers = map[string]db.Worker{"celery@gone": {LastEvent: time.Now(), Active: 100}}
	if err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: "start-listener", Host: "dead", Started: time.Now(), State: state}); err != nil {
		t.Fatal(err)
	}
	s.exec("update scheduler_go.daemons set seen = now() - interval '91 minutes' where host = 'dead'")
	if o := read[overviewData](s, "/"); o.Flow.Running == nil || *o.Flow.Running != 5 {
		t.Errorf("%v running, want 5", o.Flow.Running)
	}
}

// A loop that is a moment late is not overdue.
func TestHealthyDaemonsAreNotOverdue(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	err := s.store.RecordDaemon(t.Context(), db.Daemon{ID: uuid.New(), Name: "start-runner", Host: "h", Started: time.Now(), State: db.DaemonState{
		Overdue: map[string]float64{"asking PostgreSQL": 7.6e-05, "runner": 0.9, "lanes": 61},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := read[daemonsData](s, "/daemons")
	if len(d.Daemons) != 1 || len(d.Daemons[0].Late) != 1 || d.Daemons[0].Late[0].Name != "lanes" {
		t.Errorf("%+v", d.Daemons)
	}
}

// Both pages say if a queue position has never moved. Pools without a count have no numbers.
func TestPositionsAndPoolsThatAreNotThereYet(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil,
		"insert into visit_scheduler_queue_position (visit_type, position) values ('git', 0), ('svn', 1000000000), ('hg', extract(epoch from now())::bigint - 3700)",
		endedRows+`(2, 'journal', 'git', 'eventful', '', 1), (2, 'journal', 'svn', 'eventful', '', 1)) v (ago, source, type, status, exception, n)`)
	for _, path := range []string{"/", "/listers"} {
		body := s.has(path, "has not moved yet")
		for _, days := range []string{"20783", "20\u202f", "11\u202f", "11574"} {
			if strings.Contains(body, days) {
				t.Errorf("%s: %s days", path, days)
			}
		}
	}
	s.has("/listers", "1 h", "not counted yet")
	for _, p := range read[listersData](s, "/listers").Pools {
		if p.Counted {
			t.Errorf("%+v are counted", p)
		}
	}
}

// Groups with present or past work are shown. A lister without origins of the visit type isn't. Work without a lister
// has a readable group name.
func TestGroupsWithoutWorkAreNotShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} },
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 10)",
		"insert into listers (name, instance_name, current_state, updated) values ('cgit', 'has-none', '{}', now())",
		"insert into scheduler_go.shares (queue, share_group, as_of) values ('swh.git', 'cgit/has-none', now())",
		"insert into task (type, arguments, next_run, status, policy) values ('load-git', '{\"args\": [], \"kwargs\": {\"url\": \"https://a.example\"}}', now() - interval '1 hour', 'next_run_not_scheduled', 'oneshot')")
	s.config.Shares = map[string]model.Shares{"load-git": {By: model.ShareByListerInstance, Default: 1, HalfLife: time.Hour}}
	q := read[queueData](s, "/queue?name=swh.git")
	if len(q.Groups) != 1 || q.Groups[0].Group != "/" || q.Groups[0].Waiting != 1 {
		t.Errorf("%+v", q.Groups)
	}
	s.has("/queue?name=swh.git", "no lister")
}
