package explain

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { return new(noon.Add(-d)) }

// says fails the test unless an explanation says all of want, and none of not.
func says(t *testing.T, e Explanation, want, not []string) {
	t.Helper()
	text := e.Summary + "\n" + strings.Join(e.Reasons, "\n")
	for _, words := range want {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
	for _, words := range not {
		if strings.Contains(text, words) {
			t.Errorf("it says %q:\n%s", words, text)
		}
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	failed := &model.TaskRun{Status: model.RunFailed, Ended: ago(time.Hour)}
	aside := &db.SetAside{Reason: "odd", Since: noon, Until: noon.Add(time.Hour)}
	full := Queue{Name: "q", Limit: new(int64(100)), Ready: 40, Working: 41}
	for name, c := range map[string]struct {
		task      Task
		want, not []string
	}{
		"disabled without retries left": {
			Task{Task: model.Task{Status: model.TaskDisabled}, LastRun: failed}, []string{"It is disabled", "It had no retries left"}, nil,
		},
		"disabled by hand, with retries left": {
			Task{Task: model.Task{Status: model.TaskDisabled, RetriesLeft: 1}, LastRun: failed}, []string{"It is disabled"}, []string{"no retries left"},
		},
		"set aside": {Task{Task: model.Task{Status: model.TaskNotScheduled}, SetAside: aside}, []string{"It is rejected"}, nil},
		"scheduled by another, and still set aside": {
			Task{Task: model.Task{Status: model.TaskScheduled}, SetAside: aside}, []string{"marked as scheduled"}, []string{"set aside"},
		},
		"ready, and less than a fifth of its queue free": {
			Task{Task: model.Task{Status: model.TaskNotScheduled}, Queue: full}, []string{"Its queue q is full: it holds 81 of at most 100 messages (41 unacknowledged), and is filled again when 21 more fit."}, nil,
		},
		"ready, and its large queue has room for a claim": {
			Task{Task: model.Task{Status: model.TaskNotScheduled}, Queue: Queue{Name: "q", Limit: new(int64(100_000)), Ready: 97_000}}, []string{"Its queue q has room"}, nil,
		},
		"ready with a priority, with one slot": {
			Task{Task: model.Task{Status: model.TaskNotScheduled, Priority: "high"}, Queue: Queue{Name: "q", Limit: new(int64(100)), Ready: 99}}, []string{"Its queue q has room"}, nil,
		},
		"sent to a queue that nobody reads": {
			Task{Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunScheduled, Scheduled: ago(time.Hour)}, Queue: Queue{Name: "q", Ready: 1}},
			[]string{"no worker has begun it", "No worker reads queue q."}, nil,
		},
		"sent to a queue that is read": {
			Task{Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunScheduled, Scheduled: ago(time.Hour)}, Queue: Queue{Name: "q", Ready: 1, Consumers: 1}},
			[]string{"no worker has begun it"}, []string{"No worker reads"},
		},
		"sent to a queue that can't be asked": {
			Task{Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunScheduled, Scheduled: ago(time.Hour)}, Queue: Queue{Name: "q", Err: errors.New("away")}},
			nil, []string{"No worker reads"},
		},
		"ready, without the runner that sends it": {
			Task{Task: model.Task{Status: model.TaskNotScheduled, Priority: model.PriorityHigh}}, []string{"No start-runner --with-priority of this program is connected"}, nil,
		},
		"given up, were its events not unread": {
			Task{Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunStarted, Started: new(noon.Add(-2 * time.Hour))}, LostAfter: time.Hour, EndsKnown: noon.Add(-90 * time.Minute)},
			[]string{"is due to be given up", "workers' events are read only up to"}, nil,
		},
		"given up, were the file in force that names lost_after": {
			Task{Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunStarted, Started: new(noon.Add(-2 * time.Hour))}, LostAfter: time.Hour, EndsKnown: noon.Add(-time.Minute)},
			[]string{"is due to be given up", "the last sweep for lost runs ran without this lost_after"}, []string{"is given up at"},
		},
		"given up, where the file is in force": {
			Task{
				Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunStarted, Started: new(noon.Add(-2 * time.Hour))}, LostAfter: time.Hour, EndsKnown: noon.Add(-time.Minute),
				LastSweep: db.SilentRuns{After: map[string]time.Duration{"default": time.Hour}},
			},
			[]string{"is due to be given up", "searches for such runs every ten minutes"}, []string{"ran without this lost_after"},
		},
		"given up, where events are known": {
			Task{Task: model.Task{Status: model.TaskScheduled}, LastRun: &model.TaskRun{Status: model.RunStarted, Started: new(noon.Add(-2 * time.Hour))}, LostAfter: 3 * time.Hour, EndsKnown: noon.Add(-time.Minute)},
			[]string{"is given up at"}, []string{"read only up to"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says(t, c.task.Explain(noon), c.want, c.not)
		})
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	with := func(weight float64, policy model.VisitPolicy, cooldowns model.Cooldowns) Policy {
		return Policy{WeightedPolicy: model.WeightedPolicy{Weight: weight, Filter: model.VisitFilter{Policy: policy, Cooldowns: cooldowns}}}
	}
	day := 24 * time.Hour
	long := with(1, model.OldestScheduledFirst, model.Cooldowns{Absolute: 3 * day})
	short := with(1, model.OldestScheduledFirst, model.Cooldowns{Absolute: 2 * day})
	never := model.VisitStats{LastVisitStatus: model.VisitFailed}
	prefix := "first"
	fresh := with(1, model.Freshness, model.Cooldowns{})
	seen := origins.OriginFreshness{Weight: 1, History: freshness.History{
		Estimate: freshness.Estimate{Changes: 3, Days: 30}, Cost: time.Minute, Typical: time.Minute, LastVisit: noon.Add(-day), Threshold: 5000, Longest: 100 * day,
	}}
	dated := seen
	dated.LastUpdate, dated.LastSeen, dated.Listing = noon.Add(-50*day), noon, day
	dated.News = freshness.Quality{Right: 45.5, Wrong: 4.5, Reported: 65.5, Missed: 29.5}
	datedMoment := dated.Moment(noon)
	due, unseen := seen, origins.OriginFreshness{History: freshness.History{FirstSeen: noon.Add(-day)}}
	due.LastVisit = noon.Add(-50 * day)
	moment := seen.Moment(noon)
	rest := Policy{WeightedPolicy: model.WithRest([]model.WeightedPolicy{fresh.WeightedPolicy})[1]}
	forks := with(1, model.OldestScheduledFirst, model.Cooldowns{})
	forks.Filter.Forks = model.ForksOnly
	for name, c := range map[string]struct {
		origin    Origin
		when      *time.Time
		want, not []string
	}{
		"of two policies the one that picks it first": {
			Origin{Stats: &model.VisitStats{LastScheduled: ago(day)}, Policies: []Policy{long, short, long}}, new(noon.Add(day)), []string{"It is cooling down"}, nil,
		},
		"its hoster refused its last visit": {
			Origin{Stats: &model.VisitStats{LastScheduled: ago(time.Hour)}, Policies: []Policy{short}, Refused: &ledger.WaitingRefusal{Claimed: *ago(time.Hour), Again: noon.Add(time.Minute)},
				Hosters: []Hoster{{Name: "forge", State: refusals.State{Hoster: "forge", Limit: 1, Closed: noon.Add(time.Minute), Refused: *ago(time.Second), Kind: refusals.TooMany, Reason: "resp 429"}}}},
			new(noon.Add(time.Minute)), []string{"Its hoster refused its last visit, and it can be picked again from 2030-01-01 12:01:00", "forge refused a visit", "resp 429"}, []string{"cooldown)"},
		},
		"its hoster refused its last visit, before which it failed": {
			Origin{Stats: &model.VisitStats{LastScheduled: ago(time.Hour), LastVisit: ago(day), LastVisitStatus: model.VisitFailed}, Policies: []Policy{with(1, model.OldestScheduledFirst, model.Cooldowns{Absolute: 12 * time.Hour, Failed: 2 * day})},
				Refused: &ledger.WaitingRefusal{Claimed: *ago(time.Hour), Again: noon.Add(time.Minute)}},
			new(noon.Add(day)), []string{"failed cooldown"}, []string{"absolute cooldown"},
		},
		"a refused visit before its last one": {
			Origin{Stats: &model.VisitStats{LastScheduled: ago(time.Hour)}, Policies: []Policy{short}, Refused: &ledger.WaitingRefusal{Claimed: *ago(2 * time.Hour), Again: noon.Add(time.Minute)}},
			new(noon.Add(2*day - time.Hour)), []string{"It is cooling down"}, []string{"refused"},
		},
		"the moment at which a cooldown ends": {
			Origin{Stats: &model.VisitStats{LastScheduled: ago(2 * day)}, Policies: []Policy{short}}, &noon, []string{"It is cooling down"}, nil,
		},
		"right after it": {
			Origin{Stats: &model.VisitStats{LastScheduled: ago(2*day + 1)}, Policies: []Policy{short}}, &noon, []string{"It can be picked for a visit now"}, nil,
		},
		"failed at an unknown time, where failures cool down": {
			Origin{Stats: &never, Policies: []Policy{with(1, model.OldestScheduledFirst, model.Cooldowns{Failed: day})}}, nil, []string{"when that was is not recorded"}, nil,
		},
		"where only those not found do": {
			Origin{Stats: &never, Policies: []Policy{with(1, model.OldestScheduledFirst, model.Cooldowns{NotFound: day})}}, &noon, []string{"can be picked for a visit now"}, nil,
		},
		"a visit of it is not worth its cost yet": {
			Origin{Freshness: &seen, Policies: []Policy{fresh}}, &moment,
			[]string{"a visit is not worth its cost before", "change once in 10 days (certainty 0.75 of 1)", "has to be worth 5e+03"}, nil,
		},
		"the quality of its lister's news": {
			Origin{Freshness: &dated, Policies: []Policy{fresh}}, &datedMoment,
			[]string{"an estimated 91 % is right, and 70 % of the changes are reported (from 50 visits after news, and 95 changes)"}, nil,
		},
		"a visit of it is worth its cost": {
			Origin{Freshness: &due, Policies: []Policy{fresh}}, &noon, []string{"It can be picked for a visit now"}, []string{"not worth"},
		},
		"never visited, with the policy freshness": {
			Origin{Freshness: &unseen, Policies: []Policy{fresh}}, &noon, []string{"It can be picked for a visit now", "due since it was listed"}, nil,
		},
		"by the policy that takes what freshness leaves, until moments are computed": {
			Origin{Freshness: &seen, Policies: []Policy{fresh, rest}}, &noon,
			[]string{"It can be picked for a visit now", "not worth its cost before", "oldest_scheduled_first, which takes the slots that freshness leaves until the moments of all origins are computed, can pick it"}, []string{"weight 1e-09"},
		},
		"its place in the order by visit target": {
			Origin{Stats: &model.VisitStats{LastVisit: ago(day), NextVisitQueuePosition: new(int64(86400)), NextPositionOffset: 5}, Rules: model.DefaultVisitRules, Policies: []Policy{short}}, &noon,
			[]string{"it is at 86400 s, with interval number 5 (from 0): a visit without news moves it by 16 days, one with news by 2 days"}, nil,
		},
		"no fork, where a policy picks forks": {
			Origin{Policies: []Policy{forks, short}}, &noon, []string{"Policy oldest_scheduled_first (forks) picks forks, and this one is not known to be one."}, nil,
		},
		"waits for its first visit": {
			Origin{Lister: model.Lister{FirstVisitsQueuePrefix: &prefix}, Policies: []Policy{short}}, &noon, []string{"once a listing has finished"}, nil,
		},
		"its lister's first visits are over": {
			Origin{Lister: model.Lister{FirstVisitsQueuePrefix: &prefix, FirstVisitsScheduledAt: &noon}, Policies: []Policy{short}}, &noon, nil, []string{"queue for first visits"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.origin.Listed, c.origin.Loader = &model.ListedOrigin{Enabled: true}, &model.TaskType{Type: "load-git", BackendName: "swh.git"}
			e := c.origin.Explain(noon)
			says(t, e, c.want, c.not)
			if diff := cmp.Diff(c.when, e.When); diff != "" {
				t.Errorf("when (-want +got):\n%s", diff)
			}
		})
	}
	if all := model.ExpandPolicies([]model.WeightedPolicy{with(1, model.Pools, model.Cooldowns{}).WeightedPolicy}); len(all) != 4 || all[3].Weight != 0.25 || all[3].Filter.Policy != model.PoolPolicies[3] {
		t.Errorf("pools are %+v", all)
	}
}

// Work waits for the lane of its number, or if the configuration has fewer by now, for
// the last one.
func TestNameOfALane(t *testing.T) {
	t.Parallel()
	x := &Gatherer{Config: &config.Config{Lanes: map[string][]model.Lane{"load-git": {{Name: "express"}, {Name: "slow"}}}}}
	for _, c := range []struct {
		set    string
		number int16
		want   string
	}{{"load-git", 0, "express"}, {"load-git", 1, "slow"}, {"load-git", 2, "slow"}, {"load-hg", 1, "number 2"}} {
		p := &db.LanePlace{LaneSet: c.set, Lane: c.number}
		if x.nameLane(p); p.LaneName != c.want {
			t.Errorf("lane %d of %s is %q, want %q", c.number, c.set, p.LaneName, c.want)
		}
	}
}

// A task with priority is in the queue of its own, its last run is the latest, and what
// the configuration says by default holds for its type.
func TestFactsOfATask(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 5)",
		`insert into task (id, type, arguments, next_run, current_interval, status, priority, policy) values
			(1, 'load-git', '{"args": [], "kwargs": {}}', now(), '1 day', 'next_run_scheduled', 'high', 'oneshot')`,
		`insert into task_run (task, backend_id, status, scheduled, started, ended) values
			(1, 'first', 'failed', '2029-12-30', '2029-12-30', '2029-12-31'), (1, 'second', 'scheduled', '2030-01-01 11:00Z', null, null)`,
		"update task set status = 'next_run_scheduled' where id = 1",
	)
	x := &Gatherer{
		Store: store, Log: slog.New(slog.DiscardHandler), Now: noon,
		NoBroker: errors.New("no broker is there"),
		Config:   &config.Config{LostAfter: map[string]time.Duration{"default": 3 * time.Hour, "load-hg": time.Hour}},
	}
	e, err := x.Task(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	says(t, e, []string{
		"It has been sent, and no worker has begun it.", "It was sent at 2030-01-01 11:00:00+00:00 (1 h 0 min ago).",
		"The number of messages in its queue " + model.PriorityLanes("swh.git") + " is unknown: no broker is there.", "it is given up at 2030-01-01 14:00:00+00:00 (in 2 h 0 min)",
	}, nil)
}

// Of a task on a shared queue it is said how many messages of its group are in flight, of how
// many, and their priority; one with priority is on a queue that is not shared.
func TestShareOfATask(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('load', '', 'swh.load'), ('a', '', 'swh.index'), ('b', '', 'swh.index')",
		`insert into task (id, type, arguments, next_run, current_interval, status, priority, policy)
		 select id, type, jsonb_build_object('kwargs', jsonb_build_object('owner', owner)), '2029-12-31Z', '1 day', 'next_run_not_scheduled', priority::task_priority, 'oneshot'
		 from (values (1, 'load', 'bulk', null), (2, 'load', 'daily', null), (3, 'load', 'bulk', 'low'), (4, 'b', '', null)) v (id, type, owner, priority)`,
		`insert into scheduler_go.work (task_id, queue, home, task_name, args, kwargs, share_group, cost)
		 select gen_random_uuid(), 'swh.load', 'swh.load', 'swh.load', '[]', '{}', v.share_group, 1 from (values ('bulk'), ('bulk'), ('daily')) v (share_group)`,
	)
	x := &Gatherer{
		Store: store, Log: slog.New(slog.DiscardHandler), Now: noon,
		Config: &config.Config{PriorityAgeing: time.Hour, Shares: map[string]model.Shares{
			"load": {By: "kwargs.owner", Default: 1, HalfLife: time.Hour, MaxInFlight: map[string]int{"bulk": 2, "daily": 2}, Priorities: map[string]uint8{"daily": 5}},
			"a":    {By: model.ShareByTaskType, Default: 1, HalfLife: time.Hour},
		}},
	}
	for id, c := range map[int64]struct{ want, not []string }{
		1: {[]string{`the share of its group, "bulk", may be used up`, "Its group is at its ceiling: 2 messages are in flight, of at most 2"}, []string{"x-max-priority"}},
		2: {[]string{"Its group is below its ceiling: 1 message is in flight, of at most 2", "Messages of its group have priority 5"}, nil},
		3: {[]string{"Each 1 h 0 min that it waits, it counts as one priority higher"}, []string{"group"}},
		4: {[]string{`its group, "b", may be used up: see "swh-scheduler shares status a".`}, []string{"ceiling"}},
	} {
		e, err := x.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		says(t, e, c.want, c.not)
	}
}

// explanations returns what explains tasks, and origins of a visit type ("" is any).
func explanations(t *testing.T, x *Gatherer, visitType string) (task func(id int64) []Explanation, origin func(url string) []Explanation) {
	return func(id int64) []Explanation {
			e, err := x.Task(t.Context(), id)
			if err != nil {
				t.Errorf("task %d: %v", id, err)
			}
			return []Explanation{e}
		}, func(url string) []Explanation {
			all, err := x.Origins(t.Context(), url, visitType)
			if err != nil {
				t.Errorf("%s: %v", url, err)
			}
			return all
		}
}

// opened returns a database on which statements have been run.
func opened(t *testing.T, statements ...string) *db.Store {
	t.Helper()
	store := testenv.Open(t, testenv.Database(t))
	for _, statement := range statements {
		testenv.Exec(t, store.Pool(), statement)
	}
	return store
}
