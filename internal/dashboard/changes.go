package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
	"swh-scheduler/sql/tasks"
)

// An action changes a hoster, or tasks or graphs: one, a selection, or all that match a filter. Matches are counted first, and the
// user confirms the count. Work runs the steps of actions.

var (
	auditPage  = Page{Path: "/audit", Title: "Audit", Menu: "Audit", Query: []string{"below"}, Template: "audit.html", Fragments: []string{"audit"}, Data: audit}
	changePage = Page{Path: "/audit/{id}", Template: "change.html", Fragments: []string{"change"}, Data: change}
)

// operation is a change of tasks, of a graph or of a hoster; exactly one of the three functions is set. They run in the transaction
// that stores the action's progress.
type operation struct {
	Word    string
	Text    string // label of the button
	Means   string // the effect, as a sentence
	Warning string // a side effect; if it is set, the user must confirm the action even for a single task
	needs   Rights
	tasks   func(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (changed int64, err error)
	graph   func(ctx context.Context, d *Dashboard, tx *db.Tx, graph int64) (changed bool, err error)
	hoster  func(ctx context.Context, tx *db.Tx, hoster string) (changed bool, err error)

	// applies reports whether the operation would change a task; nil: always
	applies func(t taskData, now time.Time) bool
}

// applicable returns the operations that would change the task.
func applicable(t taskData, now time.Time) []operation {
	return slices.DeleteFunc(slices.Clone(taskOperations), func(o operation) bool { return o.applies != nil && !o.applies(t, now) })
}

func isSent(t taskData, _ time.Time) bool { return t.Task.Status == model.TaskScheduled }

func waitsInGraph(t taskData, _ time.Time) bool {
	return t.Graph != nil && t.Graph.State == model.GraphWaiting
}

const kills = "It kills the processes that run these tasks. By the time the signal arrives, a process may have begun another task, which is then killed instead."

var taskOperations = []operation{
	{
		Word: "respawn", Text: "Run again now", Means: "Each becomes ready at once, whatever its status, and is sent as soon as its queue has room.", needs: Tasks,
		applies: func(t taskData, now time.Time) bool {
			return t.Task.Status != model.TaskNotScheduled || t.Task.NextRun == nil || t.Task.NextRun.After(now)
		},
		tasks: func(ctx context.Context, d *Dashboard, tx *db.Tx, ids []int64) (int64, error) {
			return int64(len(ids)), tx.SetTaskStatus(ctx, tasks.StatusChange{IDs: ids, Status: model.TaskNotScheduled, NextRun: d.Acts.Now()})
		},
	},
	{
		Word: "disable", Text: "Disable", Means: "None is sent any more, until it is run again. What was sent runs on, and its end enables a recurring task again.", needs: Tasks,
		applies: func(t taskData, _ time.Time) bool { return t.Task.Status != model.TaskDisabled },
		tasks: func(ctx context.Context, _ *Dashboard, tx *db.Tx, ids []int64) (int64, error) {
			return int64(len(ids)), tx.SetTaskStatus(ctx, tasks.StatusChange{IDs: ids, Status: model.TaskDisabled})
		},
	},
	{Word: "revoke", Text: "Revoke what was sent", Means: "Workers drop what they have not begun. It counts as failed.", needs: Tasks, applies: isSent, tasks: revoke(false)},
	{Word: "revoke terminate", Text: "Revoke, and kill what runs", Means: "Workers drop what they have not begun, and end what they run. It counts as failed.", needs: Tasks | Terminate, applies: isSent, tasks: revoke(true), Warning: kills},
	priority("high", model.PriorityHigh, "Give high priority"),
	priority("normal", model.PriorityNormal, "Give normal priority"),
	priority("low", model.PriorityLow, "Give low priority"),
	priority("none", "", "Take priority away"),
	{Word: "release", Text: "Release from its graph", Means: "A task to be released by hand becomes ready, once all else that it depends on has ended.", needs: Tasks, applies: waitsInGraph, tasks: release(false)},
	{Word: "release force", Text: "Release, whatever it waits for", Means: "Each becomes ready at once.", needs: Tasks, applies: waitsInGraph, tasks: release(true), Warning: "These tasks run although what they depend on has not ended, or has failed."},
}

// priority returns the operation that sets or removes the priority of tasks.
func priority(word string, p model.TaskPriority, text string) operation {
	means := "The runner of tasks with priority sends them, before those of a lower one."
	if p == "" {
		means = "The runner of tasks without priority sends them."
	}
	return operation{
		Word: "priority " + word, Text: text, Means: means + " What was sent stays where it is.", needs: Tasks,
		applies: func(t taskData, _ time.Time) bool { return t.Task.Priority != p }, tasks: setPriority(p),
	}
}

var graphOperations = []operation{
	{Word: "retry graph", Text: "Retry what failed", Means: "What failed becomes ready again, what waited for it goes on, and graphs that were cancelled are taken up.", needs: Graphs, graph: func(ctx context.Context, d *Dashboard, _ *db.Tx, graph int64) (bool, error) {
		n, err := d.Acts.RetryGraph(ctx, graph, d.Acts.Now())
		return n > 0, err
	}},
	{Word: "cancel graph", Text: "Cancel what was not sent", Means: "What was not sent never runs, unless the graph is retried. What was sent runs on.", needs: Graphs, graph: cancelGraph},
	{Word: "cancel graph terminate", Text: "Cancel, and kill what runs", Means: "What was not sent never runs, unless the graph is retried. Workers drop or end what was sent.", needs: Graphs | Terminate, Warning: kills, graph: func(ctx context.Context, d *Dashboard, tx *db.Tx, graph int64) (bool, error) {
		if d.Revoke == nil {
			return false, postgres.Refused(errNoBroker)
		}
		cancelled, err := cancelGraph(ctx, d, tx, graph)
		if err != nil || !cancelled {
			return false, err
		}
		running, err := taskgraph.Running(ctx, d.Acts, graph)
		if err == nil {
			_, err = revoke(true)(ctx, d, tx, running)
		}
		return true, err
	}},
}

// find returns the operation with a word.
func find(operations []operation, word string) (operation, error) {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.Word == word })
	if i < 0 {
		return operation{}, Errorf(http.StatusBadRequest, "There is no action %q.", word)
	}
	return operations[i], nil
}

// cancelGraph cancels a graph unless it has ended: a cancelled graph is archived later, and tasks that extend it never
// run.
func cancelGraph(ctx context.Context, d *Dashboard, _ *db.Tx, graph int64) (bool, error) {
	g, err := d.Acts.Graph(ctx, graph)
	if err != nil || g.Open() == 0 {
		return false, err
	}
	return true, d.Acts.CancelGraph(ctx, graph, d.Acts.Now())
}

func setPriority(p model.TaskPriority) func(context.Context, *Dashboard, *db.Tx, []int64) (int64, error) {
	return func(ctx context.Context, _ *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return tx.SetTaskPriority(ctx, tasks, p)
	}
}

// release releases tasks from their graphs, each in its own transaction. With force it ignores the tasks' dependencies.
// It skips tasks that can't be released, for instance because an interrupted attempt has released them.
func release(force bool) func(context.Context, *Dashboard, *db.Tx, []int64) (int64, error) {
	return func(ctx context.Context, d *Dashboard, _ *db.Tx, tasks []int64) (released int64, err error) {
		for _, task := range tasks {
			_, err := taskgraph.Release(ctx, d.Acts, task, force, d.Acts.Now())
			if _, refuses := errors.AsType[*taskgraph.RefusedError](err); refuses && len(tasks) > 1 {
				continue
			}
			if err != nil {
				return released, refused(err)
			}
			released++
		}
		return released, nil
	}
}

// revoke makes workers drop the messages of tasks. With terminate, they also kill the processes that run them. It
// returns the number of tasks with such messages.
func revoke(terminate bool) func(context.Context, *Dashboard, *db.Tx, []int64) (int64, error) {
	return func(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		runs, err := tx.OpenRuns(ctx, tasks)
		if err != nil {
			return 0, err
		}
		var messages []string
		of := map[int64]bool{}
		for _, run := range runs {
			messages = append(messages, run.BackendID)
			of[run.Task] = true
		}
		if len(messages) == 0 {
			return 0, nil
		}
		if d.Revoke == nil {
			return 0, postgres.Refused(errNoBroker)
		}
		return int64(len(of)), d.Revoke(ctx, messages, terminate)
	}
}

// refused marks an error that a retry can't avoid. It ends the action.
func refused(err error) error {
	if _, ok := errors.AsType[*taskgraph.RefusedError](err); ok || errors.Is(err, model.ErrUnknownGraph) {
		return postgres.Refused(err)
	}
	return err
}

// Work runs the steps of actions, also of other processes' actions, until ctx is done. If nobody may act, it returns at
// once.
func (d *Dashboard) Work(ctx context.Context) {
	if !d.Access.canAct() {
		return
	}
	const pause = 2 * time.Second
	for ctx.Err() == nil {
		var graphs []int64
		a, err := d.Acts.TakeStep(ctx, func(ctx context.Context, tx *db.Tx, a db.Action, step db.Step) (int64, error) {
			graphs = step.Graphs
			return d.step(ctx, tx, a, step)
		})
		for _, graph := range graphs { // after the transaction that locks the action's row
			err = errors.Join(err, taskgraph.Settle(ctx, d.Acts, graph))
		}
		if a != nil && !a.Open() { // only at the end: after each step, readers would share no data
			d.data.forget()
		}
		if open, countErr := d.Acts.OpenActions(ctx); countErr == nil {
			d.metrics.actions.Set(float64(open))
		}
		if err != nil && ctx.Err() == nil {
			d.metrics.notDone.Inc()
			if held, ok := d.failures.Log(""); ok {
				d.Log.Warn("a step of an action failed", "error", err, "not_logged_before", held)
			}
		}
		if a != nil && err == nil {
			d.metrics.done.Inc()
			continue
		}
		select {
		case <-ctx.Done():
		case <-d.work:
		case <-time.After(pause):
		}
	}
}

func (d *Dashboard) step(ctx context.Context, tx *db.Tx, a db.Action, step db.Step) (int64, error) {
	return guarded(d.Log, a.Action, func() (changed int64, err error) {
		if step.Hoster != "" {
			do, err := find(hosterOperations, a.Action)
			if err != nil {
				return 0, postgres.Refused(err)
			}
			done, err := do.hoster(ctx, tx, step.Hoster)
			if done {
				changed++
			}
			return changed, err
		}
		if len(step.Graphs) == 0 {
			do, err := find(taskOperations, a.Action)
			if err != nil {
				return 0, postgres.Refused(err)
			}
			return do.tasks(ctx, d, tx, step.Tasks)
		}
		do, err := find(graphOperations, a.Action)
		if err != nil {
			return 0, postgres.Refused(err)
		}
		for _, graph := range step.Graphs {
			done, err := do.graph(ctx, d, tx, graph)
			if errors.Is(err, model.ErrUnknownGraph) && len(a.On.Graphs) != 1 {
				continue // it was archived in the meantime
			}
			if err != nil {
				return changed, refused(err)
			}
			if done {
				changed++
			}
		}
		return changed, nil
	})
}

func changeTasks(ctx context.Context, r *Request) (string, error) {
	return r.begin(ctx, tasksPage, taskOperations, "task", func(ids []int64) db.ActionFilter {
		return db.ActionFilter{Tasks: &db.TaskSearch{IDs: ids}}
	}, func(query url.Values) (db.ActionFilter, error) {
		filter, err := taskFilter(query)
		return db.ActionFilter{Tasks: &filter}, err
	})
}

func changeGraphs(ctx context.Context, r *Request) (string, error) {
	return r.begin(ctx, graphsPage, graphOperations, "graph", func(ids []int64) db.ActionFilter {
		return db.ActionFilter{Graphs: ids}
	}, func(query url.Values) (db.ActionFilter, error) {
		filter, err := graphFilter(query)
		return db.ActionFilter{GraphSearch: &filter}, err
	})
}

// begin starts the action of a page's form. The action changes the selected ids, or, if the scope is
// "all", all matches of the form's filter. what is the word for one of them.
func (r *Request) begin(ctx context.Context, p Page, operations []operation, what string, selected func(ids []int64) db.ActionFilter, matching func(url.Values) (db.ActionFilter, error)) (string, error) {
	do, err := find(operations, r.PostForm.Get("action"))
	if err != nil {
		return "", err
	}
	if !r.User.May(do) {
		return "", notAllowed(do.needs)
	}
	all := r.PostForm.Get("scope") == "all"
	var on db.ActionFilter
	if all {
		query, err := p.parse(r.PostForm.Get("filter"))
		if err != nil {
			return "", err
		}
		if on, err = matching(query); err != nil {
			return "", err
		}
	} else {
		var ids []int64
		for _, text := range r.PostForm["id"] {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil || id <= 0 {
				return "", Errorf(http.StatusBadRequest, "%q is not the number of a %s.", text, what)
			}
			ids = append(ids, id)
		}
		if len(ids) == 0 { // an empty list would match everything
			return "", Errorf(http.StatusBadRequest, "No %s is selected.", what)
		}
		on = selected(ids)
	}
	return r.start(ctx, do, on, all || do.Warning != "")
}

// start records an action and wakes Work. With count, the action waits for a confirmation once its matches are counted.
func (r *Request) start(ctx context.Context, do operation, on db.ActionFilter, count bool) (string, error) {
	a, err := r.Acts.BeginAction(ctx, r.User.Name, r.address(), do.Word, on, count)
	if err != nil {
		return "", err
	}
	r.Log.Info("action", "id", a.ID, "who", a.Who, "address", a.Address, "action", a.Action, "of_all", count)
	r.wake()
	return changePath(a.ID), nil
}

// changePath returns the path of an action's page, from the base.
func changePath(id int64) string { return "/audit/" + strconv.FormatInt(id, 10) }

func (d *Dashboard) wake() {
	select {
	case d.work <- struct{}{}:
	default:
	}
}

func confirmChange(ctx context.Context, r *Request) (string, error) {
	return r.setState(ctx, "confirmed", "It was confirmed or cancelled before, or is counted still.", r.Acts.ConfirmAction)
}

func cancelChange(ctx context.Context, r *Request) (string, error) {
	return r.setState(ctx, "cancelled", "It has ended.", r.Acts.CancelAction)
}

// setState changes the state of an action. If set returns false, refusal is the reason.
func (r *Request) setState(ctx context.Context, what, refusal string, set func(ctx context.Context, id int64, who string) (bool, error)) (string, error) {
	id, err := r.id("an action")
	if err != nil {
		return "", err
	}
	a, err := r.Acts.Action(ctx, id)
	if err != nil {
		return "", err
	}
	if a == nil {
		return "", Errorf(http.StatusConflict, "%s", refusal)
	}
	if c := (changeData{Action: *a}); !r.User.MayChange(c) {
		return "", notAllowed(c.needs())
	}
	changed, err := set(ctx, id, r.User.Name+", "+r.address())
	if err == nil && !changed {
		err = Errorf(http.StatusConflict, "%s", refusal)
	}
	if err == nil {
		r.Log.Info("action "+what, "id", id, "who", r.User.Name, "address", r.address())
	}
	r.wake()
	return changePath(id), err
}

type auditData struct {
	Actions []changeData `json:"actions"` // the newest first
	Next    int64        `json:"next"`    // the next page has the numbers below this one; 0: there is none
}

func audit(ctx context.Context, r *Request) (any, error) {
	below, err := wholeNumber(r.URL.Query(), "below")
	if err != nil {
		return nil, err
	}
	actions, err := r.Acts.Actions(ctx, below, listed)
	d := auditData{}
	for _, a := range actions {
		d.Actions = append(d.Actions, changeData{Action: a})
	}
	if len(actions) == listed {
		d.Next = actions[listed-1].ID
	}
	return d, err
}

type changeData struct {
	db.Action
	Samples []sample `json:"samples,omitempty"` // examples, while the action waits for its confirmation
}

// sample is a task or a graph that an action would change.
type sample struct {
	Text string `json:"text"`
	Page string `json:"page"`
}

// maxSamples is the largest number of samples of an action.
const maxSamples = 5

// samples returns tasks or graphs that an action would change, the newest first.
func (r *Request) samples(ctx context.Context, a db.Action) (all []sample, err error) {
	switch {
	case a.On.Tasks != nil:
		found, err := r.Reads.FindTasks(ctx, *a.On.Tasks, a.Below, maxSamples)
		for _, t := range found.Tasks {
			all = append(all, sample{fmt.Sprintf("task %d: %s %s", t.ID, t.Type, arguments(t.Arguments)), fmt.Sprintf("/tasks/%d", t.ID)})
		}
		if errors.Is(err, db.ErrSearchTooLong) { // the count ran in steps, and this search in one statement
			err = nil
		}
		return all, err
	case a.On.GraphSearch != nil:
		found, err := r.Reads.FindGraphs(ctx, *a.On.GraphSearch, a.Below, maxSamples, 1)
		for _, g := range found.Graphs {
			all = append(all, sample{fmt.Sprintf("graph %d %s", g.ID, g.Name), fmt.Sprintf("/graphs/%d", g.ID)})
		}
		return all, err
	}
	return nil, nil
}

func (c changeData) PageTitle() string { return "Action " + strconv.FormatInt(c.ID, 10) }

// Percent returns the progress of the action or its count, by task numbers.
func (c changeData) Percent() int64 {
	if c.State == db.ActionDone || c.State == db.ActionCounted {
		return 100
	}
	return 100 * (c.Below - c.Place) / max(1, c.Below)
}

// Means returns the action's effect and side effects.
func (c changeData) Means() string {
	do, _ := find(slices.Concat(taskOperations, graphOperations, hosterOperations), c.Action.Action)
	return strings.TrimSpace(do.Means + " " + do.Warning)
}

// needs returns the rights for the action. An action that only a newer program supports needs all rights.
func (c changeData) needs() Rights {
	do, err := find(slices.Concat(taskOperations, graphOperations, hosterOperations), c.Action.Action)
	if err != nil {
		return Tasks | Graphs | Terminate
	}
	return do.needs
}

// Waits reports whether the action waits to be confirmed.
func (c changeData) Waits() bool { return c.State == db.ActionCounted }

func change(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("an action")
	if err != nil {
		return nil, err
	}
	a, err := r.Acts.Action(ctx, id)
	if err == nil && a == nil {
		err = Errorf(http.StatusNotFound, "There is no action %d.", id)
	}
	if err != nil {
		return nil, err
	}
	c := changeData{Action: *a}
	if c.Waits() {
		c.Samples, err = r.samples(ctx, *a)
	}
	return c, err
}
