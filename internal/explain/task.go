package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

type Task struct {
	Task    model.Task
	Type    model.TaskType
	LastRun *model.TaskRun     // nil: it never ran
	Message *db.WaitingMessage // of the last run, if it is still outgoing
	Lane    *db.LanePlace      // of the last run, if it is on a lane
	Lanes   string             // the lane set of its type, or ""
	Queue   Queue
	Ahead   int // number of ready tasks that are claimed before it

	AheadLimit int                 // the most that Ahead counts
	Graph      *graphs.Task        // nil: it is in no graph
	SetAside   *db.SetAside        // nil: it isn't set aside
	WaitsFor   []graphs.Dependency // in its graph
	Blockers   []graphs.Blocker    // where the paths of WaitsFor end
	LostAfter  time.Duration       // 0: silent runs are not given up
	EndsKnown  time.Time           // up to when ends of runs are read
	Sending    model.SendingSince  // when this program began to send
	LastSweep  db.SilentRuns       // the last sweep for lost runs
	Ageing     time.Duration       // the wait that raises a priority by one; 0: none does
	Runners    int                 // connections of its runner
	Others     []string            // the options of its runners, if each is restricted to other task types
	Share      *Share              // nil: its queue is not divided between groups
}

// unknownFor is the age of the last known ends above which Explain mentions it.
const unknownFor = 10 * time.Minute

// Explain returns why the task has not been scheduled by now. Dates are shown in UTC.
func (t Task) Explain(now time.Time) Explanation {
	e := &Explanation{now: now}
	e.Subject = fmt.Sprintf("Task %d (%s, %s)", t.Task.ID, t.Task.Type, t.Task.Policy)
	switch {
	case t.SetAside != nil && t.Task.Status == model.TaskNotScheduled:
		e.isSetAside(*t.SetAside)
		t.describeLastRun(e)
	case t.Graph != nil && (t.Graph.State == model.GraphWaiting || t.Task.Status == model.TaskNotScheduled && t.Task.NextRun.Equal(graphs.Never)):
		t.waitsInGraph(e)
	case t.Graph != nil && !t.Graph.State.Open() && t.Task.Status == model.TaskDisabled:
		t.neverInGraph(e)
	case t.Task.Status == model.TaskDisabled:
		e.Summary = "It is disabled: nothing sends it."
		t.describeLastRun(e)
		if r := t.LastRun; r != nil && r.Ended == nil && t.Task.Policy == model.Recurring {
			e.because("The end of that run enables it again. To end the run: \"swh-scheduler task revoke --disable --terminate %d\".", t.Task.ID)
		}
		t.respawn(e)
	case t.Task.Status == model.TaskCompleted:
		e.Summary = "It is completed: a task with the policy oneshot runs once."
		t.describeLastRun(e)
		t.respawn(e)
	case t.Task.Status == model.TaskScheduled:
		t.isScheduled(e)
	case t.Task.NextRun.After(now):
		t.isToRunLater(e)
	default:
		t.isReady(e)
	}
	return *e
}

func (t Task) respawn(e *Explanation) {
	e.because("To run it again: \"swh-scheduler task respawn %d\".", t.Task.ID)
}

func (t Task) waitsInGraph(e *Explanation) {
	e.Summary = fmt.Sprintf("It waits for other tasks of graph %d, where it is called %s.", t.Graph.Graph, t.Graph.Name)
	t.waitsForRelease(e)
	for _, d := range t.WaitsFor {
		name := ""
		if d.Name != "" {
			name = fmt.Sprintf(" (%s of graph %d)", d.Name, d.Graph)
		}
		switch {
		case d.ID == t.Task.ID:
			e.because("It is to be released by hand: \"swh-scheduler task graph release %d\".", d.ID)
		case d.Broken:
			e.because("Task %d%s is %s, and it needs another result: it will not run, unless that task is tried again.", d.ID, name, d.Status)
		default:
			to := map[graphs.Condition]string{graphs.OnCompleted: "be completed", graphs.OnResolved: "end", graphs.OnFailed: "fail"}[graphs.Condition(d.Condition)]
			e.because("It waits for task %d%s to %s. That is %s.", d.ID, name, to, d.Status)
		}
	}
	t.describeBlockers(e)
	if t.Graph.Deadline != nil {
		e.because("If it still waits at %s, it never runs.", e.at(*t.Graph.Deadline))
	}
}

func (t Task) neverInGraph(e *Explanation) {
	e.Summary = fmt.Sprintf("It will not run: in graph %d, where it is called %s, its state is %s.", t.Graph.Graph, t.Graph.Name, t.Graph.State)
	if t.Graph.FailedBy != nil {
		how := "failed"
		if t.Graph.State == model.GraphSkipped {
			how = "ended with another result than it needs"
		}
		e.because("It depends on task %d, which %s.", *t.Graph.FailedBy, how)
	}
	t.describeLastRun(e)
	e.because("To retry the failed tasks of the graph: \"swh-scheduler task graph retry %d\".", t.Graph.Graph)
}

// describeLastRun adds the last run, which may be running.
func (t Task) describeLastRun(e *Explanation) {
	r := t.LastRun
	if r == nil {
		e.because("It has never been sent.")
		return
	}
	text := fmt.Sprintf("Its last run is %s", r.Status)
	if r.Ended != nil {
		text = fmt.Sprintf("Its last run ended as %s at %s", r.Status, e.at(*r.Ended))
	}
	if problem := metadataText(r, "error"); problem != "" {
		text += ": " + problem
	}
	e.because("%s.", strings.TrimRight(text, "."))
	switch {
	case r.Status != model.RunFailed && r.Status != model.RunLost:
	case metadataText(r, "not_retried") != "":
		e.because("It was %s, so it isn't retried.", metadataText(r, "not_retried"))
	case t.Task.Status == model.TaskDisabled && t.Task.RetriesLeft <= 0:
		e.because("It had no retries left, so that failure disabled it.")
	}
}

// metadataText returns a string of a run's metadata, or "".
func metadataText(r *model.TaskRun, key string) string {
	var metadata map[string]any
	if json.Unmarshal(r.Metadata, &metadata) != nil {
		return ""
	}
	text, _ := metadata[key].(string)
	return text
}

func (t Task) isScheduled(e *Explanation) {
	r := t.LastRun
	switch {
	case r == nil:
		e.Summary = "It is marked as scheduled, but no run of it is recorded."
		e.because("Another scheduler took it over RPC, and has not reported that it was sent.")
		t.respawn(e)
		return
	case t.Message != nil:
		e.Summary = "It is scheduled, but its message has not been sent yet."
		e.describeMessage(*t.Message)
		if t.Message.Attempts > 0 && t.Message.Again.After(e.now) {
			e.When = &t.Message.Again
		}
		return
	case t.Lane != nil && !t.Lane.Sent:
		e.waitsInBacklog(*t.Lane)
		return
	case r.Ended != nil:
		e.Summary = "It is marked as scheduled, although its last run has ended."
		t.describeLastRun(e)
		t.respawn(e)
		return
	}
	since := r.Scheduled
	if r.Status == model.RunStarted && (t.Lane == nil || t.Lane.Started != nil) {
		e.Summary = "A worker runs it."
		if since = r.Started; since != nil {
			e.because("It was started at %s.", e.at(*since))
		}
		if worker := metadataText(r, "worker"); worker != "" {
			e.because("The worker is %s.", worker)
		}
	} else {
		e.Summary = "It has been sent, and no worker has begun it."
		if since != nil {
			e.because("It was sent at %s.", e.at(*since))
		}
		e.describeQueue(t.Queue, t.refill())
	}
	if t.Lane != nil {
		e.describeLane(*t.Lane)
	}
	switch {
	case since == nil:
	case t.LostAfter == 0:
		e.because("If its message or its worker was lost, it is never given up: the configuration has no lost_after for its type.")
	case !t.Sending.Sent(r.Scheduled, t.Task.Priority != "", t.LastSweep.Before):
		e.because("It was sent before this program sent such tasks here, so that lost_after doesn't give it up: task respawn %d, or start-runner --lost-before, has it tried again.", t.Task.ID)
	case since.Add(t.LostAfter).After(e.now):
		e.because("If no event of it comes, it is given up at %s (lost_after), and tried again.", e.at(since.Add(t.LostAfter)))
		if !t.EndsKnown.IsZero() && e.now.Sub(t.EndsKnown) > unknownFor {
			e.because("But workers' events are read only up to %s: no run is given up for silence after that.", e.at(t.EndsKnown))
		}
	default:
		t.isOverdue(e, r.Status, since.Add(t.LostAfter))
	}
}

// isOverdue adds why a silent run has not been given up yet.
func (t Task) isOverdue(e *Explanation, status model.RunStatus, due time.Time) {
	e.because("No event of it has come, so it is due to be given up since %s (lost_after).", e.at(due))
	inForce, known := t.LastSweep.After[t.Task.Type]
	if !known {
		inForce = t.LastSweep.After["default"]
	}
	switch {
	case !t.EndsKnown.IsZero() && t.EndsKnown.Before(due):
		e.because("But workers' events are read only up to %s: no run is given up for silence after that.", e.at(t.EndsKnown))
	case inForce != t.LostAfter:
		e.because("But the last sweep for lost runs ran without this lost_after: no start-runner (without --with-priority) has the present configuration: restart it.")
	case t.Queue.Err != nil:
		e.because("But while its queue can't be observed, none of its runs is given up.")
	case status == model.RunScheduled && t.Queue.Ready+t.Queue.Working > 0:
		e.because("But its message may be among those in its queue: it is given up when the queue is empty.")
	case status == model.RunScheduled:
		e.because("start-runner (without --with-priority) searches for such runs every ten minutes. It gives up a run that never began once events are read up to ten minutes after an observation of its empty queue.")
	default:
		e.because("start-runner (without --with-priority) searches for such runs every ten minutes.")
	}
}

func (t Task) isToRunLater(e *Explanation) {
	e.Summary = fmt.Sprintf("It is to run at %s.", e.at(t.Task.NextRun))
	e.When = &t.Task.NextRun
	r := t.LastRun
	if r == nil {
		e.because("It has never been sent: that date is the one it was created with, or was given since.")
		return
	}
	t.describeLastRun(e)
	failed, regular := r.Status == model.RunFailed || r.Status == model.RunLost, false
	if failed && metadataText(r, "not_retried") == "" {
		var retried bool
		switch retried, regular = t.follows(r); {
		case retried:
			e.because("It is tried again after a delay; %s left.", model.Count(max(0, t.Task.RetriesLeft), "more retry is", "more retries are"))
		case regular:
			e.because("It had no retries left, so it waits for its next regular run.")
		default:
			e.because("That date was moved since that run ended.")
		}
	}
	done := r.Status == model.RunEventful || r.Status == model.RunUneventful || metadataText(r, "not_retried") != ""
	if (done || regular) && t.Task.CurrentInterval != nil {
		e.because("Its interval is %s.", Roughly(*t.Task.CurrentInterval))
	}
}

// retryDelay is the Python scheduler's default for task types without one.
const retryDelay = time.Hour

// follows reports whether the next run is a retry of a failed run, or the next regular one. PostgreSQL adds days of
// 23 or 25 hours when clocks change.
func (t Task) follows(r *model.TaskRun) (retried, regular bool) {
	if r.Ended == nil {
		return false, false
	}
	const clockChange = time.Hour + time.Minute
	off := func(delay *time.Duration) time.Duration {
		if delay == nil {
			return math.MaxInt64
		}
		return t.Task.NextRun.Sub(r.Ended.Add(*delay)).Abs()
	}
	ofRetry, ofRegular := off(cmp.Or(t.Type.RetryDelay, new(retryDelay))), off(t.Task.CurrentInterval)
	retried = ofRetry <= min(ofRegular, clockChange)
	return retried, !retried && ofRegular <= clockChange
}

// runner returns the command that sends the task.
func (t Task) runner() string {
	if t.Task.Priority != "" {
		return "start-runner --with-priority"
	}
	return "start-runner"
}

// refill returns when its runner fills its queue again.
func (t Task) refill() dispatch.Refill {
	if t.Task.Priority != "" {
		return dispatch.RefillByPriority
	}
	return dispatch.RefillByRunner
}

func (t Task) isReady(e *Explanation) {
	e.Summary = fmt.Sprintf("It has been ready to run since %s.", e.at(t.Task.NextRun))
	e.When = &e.now
	if t.LastRun != nil {
		t.describeLastRun(e)
	}
	runner := t.runner()
	if t.Task.Priority != "" {
		e.because("It has priority %s: only %s sends it.", t.Task.Priority, runner)
		if t.Ageing > 0 && t.Task.Priority != model.PriorityHigh {
			e.because("Each %s that it waits, it counts as one priority higher (priority_ageing).", Roughly(t.Ageing))
		}
	}
	e.describeCapacity(t.Lanes, t.Queue, t.refill(), t.Share)
	switch {
	case t.Ahead == 0:
		e.because("No other ready task of its type is taken before it.")
	case t.Ahead >= t.AheadLimit:
		e.because("More than %s taken before it.", model.Count(t.AheadLimit-1, "ready task of its type is", "ready tasks of its type are"))
	default:
		e.because("%s taken before it.", model.Count(t.Ahead, "ready task of its type is", "ready tasks of its type are"))
	}
	switch {
	case t.Runners == 0:
		e.because("No %s of this program is connected to the database now.", runner)
	case len(t.Others) > 0:
		e.because("No connected %s sends its type: each is restricted to others (%s).", runner, strings.Join(t.Others, "; "))
	default:
		e.because("It is taken by a pass of %s that finds room for it in its queue.", runner)
	}
}
