package maintenance

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// forges are listers with origins, their tasks, and runs of these. Moments are in minutes before now.
type forges struct {
	*testing.T
	store *db.Store
	rules model.GoneOrigins
	job   Job
}

func forgesWith(t *testing.T, rules model.GoneOrigins) *forges {
	t.Helper()
	f := &forges{t, storeAfter(t, `
		insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor)
		select t, '', 'swh.' || t, '1 day', '1 day', '1 day', 1 from unnest('{list-gitweb,list-gitlab-full,list-gitlab-incremental}'::text[]) t`), rules, Job{}}
	f.job = Gone(f.store, rules, slog.New(slog.NewTextHandler(t.Output(), nil)))
	return f
}

// gitweb is the rule of the lister gitweb.
func gitweb(change ...func(*model.GoneRule)) model.GoneOrigins {
	rule := model.DefaultGoneRule("gitweb")
	for _, c := range change {
		c(&rule)
	}
	return model.GoneOrigins{"gitweb": rule}
}

// lister adds an instance of a lister.
func (f *forges) lister(name, instance string) uuid.UUID {
	f.Helper()
	l, err := f.store.GetOrCreateLister(f.Context(), name, instance, nil)
	if err != nil {
		f.Fatal(err)
	}
	return l.ID
}

// seen has the lister list the origins from first to last at a moment, as listers do.
func (f *forges) seen(lister uuid.UUID, first, last, minutes int) {
	f.Helper()
	var listed []model.ListedOrigin
	at := f.ago(minutes)
	for i := first; i <= last; i++ {
		listed = append(listed, model.ListedOrigin{ListerID: lister, URL: origin(i), VisitType: "git", Enabled: true, LastSeen: at})
	}
	if _, err := f.store.RecordListedOrigins(f.Context(), listed, true); err != nil {
		f.Fatal(err)
	}
}

func origin(i int) string { return fmt.Sprintf("https://git.example/%04d", i) }

func (f *forges) ago(minutes int) time.Time {
	return f.store.Now().Add(-time.Duration(minutes) * time.Minute)
}

// run adds a run of a task with these keyword arguments. Unless it is only started, a listing of the lister ended 1
// minute before the run's end.
func (f *forges) run(lister uuid.UUID, taskType, kwargs, status string, start, end int) {
	f.Helper()
	testenv.Exec(f, f.store.Pool(), `
		with t as (insert into task (type, arguments, next_run, current_interval, status, policy)
			select $1, jsonb_build_object('args', '[]'::jsonb, 'kwargs', $2::text::jsonb), now(), '1 day', 'next_run_not_scheduled', 'recurring' returning id)
		insert into task_run (task, backend_id, scheduled, started, ended, status)
		select id, gen_random_uuid(), $4::timestamptz - interval '1 minute', $4::timestamptz, $5::timestamptz, $3::task_run_status from t`,
		taskType, kwargs, status, f.ago(start), f.ago(end))
	if status == "started" {
		testenv.Exec(f, f.store.Pool(), "update task_run set ended = null where status = 'started'")
	} else {
		testenv.Exec(f, f.store.Pool(), "update listers set last_listing_finished_at = $2 where id = $1", lister, f.ago(end+1))
	}
}

// do runs the job, and returns the state of a lister's listing, and the disabled origins by number.
func (f *forges) do(lister uuid.UUID) (l origins.FullListing, disabled []string) {
	f.Helper()
	if _, err := f.job.Do(f.Context()); err != nil {
		f.Error(err)
	}
	return f.listing(lister), f.disabled(lister)
}

func (f *forges) listing(lister uuid.UUID) origins.FullListing {
	f.Helper()
	all, err := f.store.FullListings(f.Context())
	i := slices.IndexFunc(all, func(l origins.FullListing) bool { return l.ID == lister })
	if err != nil || i < 0 {
		f.Fatal(err, i)
	}
	return all[i]
}

func (f *forges) disabled(lister uuid.UUID) []string {
	return testenv.Column[string](f, f.store.Pool(), "select right(url, 4) from listed_origins where lister_id = $1 and not enabled order by url", lister)
}

// expect compares the state of a lister's listing and its disabled origins after the job has run.
func (f *forges) expect(what string, lister uuid.UUID, state, doubt string, disabled ...string) {
	f.Helper()
	l, got := f.do(lister)
	if l.State != state || !strings.HasPrefix(l.Doubt, doubt) || (l.Doubt == "") != (doubt == "") {
		f.Errorf("%s: state %s, doubt %q; want %s, %q", what, l.State, l.Doubt, state, doubt)
	}
	if diff := cmp.Diff(append([]string{}, disabled...), append([]string{}, got...)); diff != "" {
		f.Errorf("%s: disabled origins (-want +got):\n%s", what, diff)
	}
}

const ofGit = `{"url": "https://git.example/"}`

// After a full listing the origins that it lacks are disabled. A candidate change is noted of each, so that no policy
// picks them. When they are listed again, they are enabled, and counted.
func TestOriginsGoneFromTheForge(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb())
	l, other := f.lister("gitweb", "git.example"), f.lister("gitweb", "other.example")
	f.seen(l, 1, 100, 600)
	f.seen(other, 1, 100, 600) // the same origins, and the listing of another instance
	f.expect("before any run", l, "none", "")
	f.seen(l, 4, 100, 90)
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	testenv.Exec(t, f.store.Pool(), "delete from scheduler_go.candidate_changes")
	f.expect("after a full listing", l, "done", "", "0001", "0002", "0003")
	if got := f.disabled(other); len(got) > 0 {
		t.Errorf("origins of the other instance are disabled: %v", got)
	}
	if n := testenv.Value[int](t, f.store.Pool(), "select count(*) from scheduler_go.candidate_changes"); n != 3 {
		t.Errorf("%d changes of candidates, want 3", n)
	}
	gone, err := f.store.GoneOrigin(t.Context(), model.ListedOrigin{ListerID: l, URL: origin(2), VisitType: "git"})
	if err != nil || gone == nil || !gone.Ended.Equal(testenv.Value[time.Time](t, f.store.Pool(), "select ended from task_run")) {
		t.Errorf("of a disabled origin %+v is known, %v", gone, err)
	}
	f.expect("again", l, "done", "", "0001", "0002", "0003")

	f.seen(l, 2, 100, 40)
	f.run(l, "list-gitweb", ofGit, "eventful", 50, 30)
	testenv.Exec(t, f.store.Pool(), "update scheduler_go.walks set began = began - interval '1 hour'")
	f.expect("after the next listing", l, "done", "", "0001")
	if s := f.listing(l); s.Gone != 3 || s.Back != 2 || s.Enabled != 99 || s.Missing != 0 {
		t.Errorf("%+v, want 3 gone, 2 of them back, and nothing missing of 99", s)
	}
	if got := testenv.Column[string](t, f.store.Pool(), "select url from scheduler_go.gone_origins"); !slices.Equal(got, []string{origin(1)}) {
		t.Errorf("gone are %v, want the first", got)
	}
}

// Partial and failed listings, those of other task types, and those that can't be dated disable nothing.
func TestListingsThatAreNotFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run   func(f *forges, l uuid.UUID)
		doubt string
	}{
		"failed": {func(f *forges, l uuid.UUID) { f.run(l, "list-gitweb", ofGit, "failed", 100, 80) }, "it ended as failed"},
		"partial": {func(f *forges, l uuid.UUID) {
			f.run(l, "list-gitweb", `{"url": "https://git.example", "max_pages": 2}`, "eventful", 100, 80)
		}, "its argument max_pages"},
		"another type":    {func(f *forges, l uuid.UUID) { f.run(l, "list-gitlab-full", ofGit, "eventful", 100, 80) }, ""},
		"another forge's": {func(f *forges, l uuid.UUID) { f.run(l, "list-gitweb", `{"url": "https://b/"}`, "eventful", 100, 80) }, ""},
		"still running": {func(f *forges, l uuid.UUID) {
			f.run(l, "list-gitweb", ofGit, "started", 100, 80)
		}, ""},
		"clocks off": {func(f *forges, l uuid.UUID) {
			f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
			testenv.Exec(f, f.store.Pool(), "update task_run set scheduled = scheduled + interval '1 hour'")
		}, "its dates contradict"},
		"a lister's clock off": {func(f *forges, l uuid.UUID) {
			f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
			testenv.Exec(f, f.store.Pool(), "update scheduler_go.listings set finished = finished + interval '1 hour'")
		}, "the lister recorded no end"},
		"two addresses": {func(f *forges, l uuid.UUID) {
			f.run(l, "list-gitweb", `{"url": "https://git.example/a/"}`, "eventful", 300, 280)
			f.run(l, "list-gitweb", `{"url": "https://git.example/b/"}`, "eventful", 100, 80)
		}, "tasks list this instance at several addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forgesWith(t, gitweb())
			l := f.lister("gitweb", "git.example")
			f.lister("gitlab", "git.example")
			f.seen(l, 1, 100, 600)
			f.seen(l, 4, 100, 90)
			c.run(f, l)
			f.expect(name, l, "none", c.doubt)
		})
	}
}

// A run that lists the instance at another address counts before its first end, and whatever its type: the origins that
// it listed before the other run began are not gone.
func TestAnotherAddressThatIsListedNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lister, full, other, status string
	}{
		"still running":   {"gitweb", "list-gitweb", "list-gitweb", "started"},
		"of another type": {"gitlab", "list-gitlab-full", "list-gitlab-incremental", "eventful"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forgesWith(t, model.GoneOrigins{c.lister: model.DefaultGoneRule(c.lister)})
			l := f.lister(c.lister, "git.example")
			f.run(l, c.other, `{"url": "https://git.example/b"}`, c.status, 300, 120)
			f.seen(l, 1, 3, 200)
			f.run(l, c.full, `{"url": "https://git.example/a"}`, "eventful", 100, 80)
			f.seen(l, 4, 100, 90)
			f.expect("a listing of the other address", l, "none", "tasks list this instance at several addresses")
		})
	}
}

// A clock that is behind by less than the margin disables no origin that was listed. An origin last seen within the
// margin before the listing stays until the next one.
func TestMarginOfClocks(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb())
	l := f.lister("gitweb", "git.example")
	f.seen(l, 1, 100, 600)
	f.seen(l, 2, 2, 108) // the runner's clock says 101 at that moment
	f.seen(l, 3, 3, 112)
	f.seen(l, 4, 100, 90)
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	f.expect("with a margin of 10 minutes", l, "done", "", "0001", "0003")
}

// A listing that lacks more than the bound is held back. Nothing is disabled until an operator confirms; the next
// full listing replaces it.
func TestHalfForgotten(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb())
	l := f.lister("gitweb", "git.example")
	f.seen(l, 1, 100, 600)
	f.seen(l, 51, 100, 90)
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	f.expect("half is forgotten", l, "held", "")
	held := f.listing(l)
	if held.Enabled != 100 || held.Missing != 50 || held.Allowed != 5 {
		t.Errorf("%+v, want 50 missing of 100, of which 5 may go", held)
	}
	missing, err := f.store.MissingOrigins(t.Context(), l, 2)
	if err != nil || len(missing) != 2 || missing[0].URL != origin(1) {
		t.Errorf("missing are %v, %v", missing, err)
	}
	f.run(l, "list-gitweb", ofGit, "failed", 70, 60)
	f.expect("a failed listing later", l, "held", "it ended as failed")

	f.seen(l, 1, 99, 40)
	f.run(l, "list-gitweb", ofGit, "eventful", 50, 30)
	f.expect("the next listing has them", l, "done", "", "0100")
	if ok, err := f.store.AnswerHeldListing(t.Context(), l, *held.Run, true); ok || err != nil {
		t.Errorf("the replaced listing was confirmed: %v, %v", ok, err)
	}

	f.seen(l, 1, 10, 10)
	f.run(l, "list-gitweb", ofGit, "eventful", 15, 5)
	f.expect("most are missing", l, "held", "", "0100")
	if ok, err := f.store.AnswerHeldListing(t.Context(), l, *f.listing(l).Run, false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	f.expect("dismissed", l, "dismissed", "", "0100")
}

// A confirmed listing disables what it lacks, but not what was listed since.
func TestConfirmedListing(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb(func(r *model.GoneRule) { r.MaxShare, r.Few = 0, 0 }))
	l := f.lister("gitweb", "git.example")
	f.seen(l, 1, 100, 600)
	f.seen(l, 4, 100, 90)
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	f.expect("without a share that may go", l, "held", "")
	f.seen(l, 2, 2, 1)
	if ok, err := f.store.AnswerHeldListing(t.Context(), l, *f.listing(l).Run, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	f.expect("confirmed", l, "done", "", "0001", "0003")
}

// A rule with two listings in a row disables what both lack.
func TestTwoListingsInARow(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb(func(r *model.GoneRule) { r.Listings = 2 }))
	l := f.lister("gitweb", "git.example")
	f.seen(l, 1, 100, 600)
	f.seen(l, 3, 100, 190)
	f.run(l, "list-gitweb", ofGit, "eventful", 200, 180)
	f.expect("after one", l, "done", "")
	f.seen(l, 2, 99, 90)
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	f.expect("after two", l, "done", "", "0001")
}

// A full listing counts that ended while others of the instance run, full or incremental. An earlier one that ends
// after it is ignored.
func TestListingsAtTheSameTime(t *testing.T) {
	t.Parallel()
	rule := model.DefaultGoneRule("gitlab")
	f := forgesWith(t, model.GoneOrigins{"gitlab/git.example": rule})
	l := f.lister("gitlab", "git.example")
	f.seen(l, 1, 100, 600)
	f.run(l, "list-gitlab-full", ofGit, "started", 150, 0)
	f.run(l, "list-gitlab-incremental", ofGit, "started", 120, 0)
	f.seen(l, 3, 100, 90)
	f.run(l, "list-gitlab-full", ofGit, "eventful", 100, 80)
	f.expect("the second ends first", l, "done", "", "0001", "0002")
	f.seen(l, 1, 1, 10) // the incremental listing
	testenv.Exec(t, f.store.Pool(), "update task_run set ended = now(), status = 'eventful' where ended is null")
	f.expect("the others end", l, "done", "", "0002")
}

// An origin of two listers is disabled for the one whose listing lacks it.
func TestOriginsOfTwoListers(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb())
	l, other := f.lister("gitweb", "git.example"), f.lister("gitlab", "git.example")
	f.seen(l, 1, 50, 600)
	f.seen(other, 1, 50, 600)
	f.seen(l, 2, 50, 90)
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	f.expect("of gitweb", l, "done", "", "0001")
	if got := f.disabled(other); len(got) > 0 {
		t.Errorf("disabled for gitlab: %v", got)
	}
}

// Large listings are gone through in steps; a job that is interrupted goes on.
func TestLargeListings(t *testing.T) {
	t.Parallel()
	f := forgesWith(t, gitweb())
	l := f.lister("gitweb", "git.example")
	testenv.Exec(t, f.store.Pool(), `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select $1, 'https://git.example/' || n, 'git', '{}', true, case when n % 50 = 0 then $2::timestamptz else $3::timestamptz end from generate_series(1, 23000) n`,
		l, f.ago(600), f.ago(90))
	f.run(l, "list-gitweb", ofGit, "eventful", 100, 80)
	g := &gone{store: f.store, rules: f.rules, log: slog.New(slog.DiscardHandler)}
	if err := g.examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	var states []string
	for range 20 {
		state, _, err := f.store.StepFullListing(t.Context(), &g.steps, l, f.rules["gitweb"])
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state)
		if state == origins.ListingDone {
			break
		}
	}
	want := append(slices.Repeat([]string{"counting"}, 4), "disabling", "disabling", "disabling", "disabling", "disabling", "done")
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states after each step (-want +got):\n%s", diff)
	}
	if s := f.listing(l); s.Disabled != 460 || s.Missing != 460 || s.Enabled != 23000 {
		t.Errorf("%+v, want 460 of 23,000 disabled", s)
	}
}
