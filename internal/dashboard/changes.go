package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql/db"
)

// What people do to tasks and graphs is an action of the store: of one task, of a selection, or of
// all that a filter matches, which is counted first and confirmed. Work takes its steps.

var (
	auditPage  = Page{Path: "/audit", Title: "Audit", Menu: "Audit", Template: "audit.html", Fragments: []string{"audit"}, Data: audit}
	changePage = Page{Path: "/audit/{id}", Template: "change.html", Fragments: []string{"change"}, Data: change}
)

// taskAction is something that can be done to tasks. In a transaction that notes how far the
// action came it is done to some of them; it returns how many were changed.
type taskAction struct {
	Word    string
	Text    string // for people
	Warning string // what it may do besides; then it has to be confirmed, of one task, too
	do      func(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (int64, error)
}

const kills = "It kills the processes that run these tasks. By the time the signal arrives, a process may have begun another task, which is then killed instead."

var taskActions = []taskAction{
	{Word: "respawn", Text: "Run again now", do: func(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return int64(len(tasks)), tx.SetTaskStatus(ctx, db.StatusChange{IDs: tasks, Status: model.TaskNotScheduled, NextRun: d.Acts.Now()})
	}},
	{Word: "disable", Text: "Disable", do: func(ctx context.Context, _ *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return int64(len(tasks)), tx.SetTaskStatus(ctx, db.StatusChange{IDs: tasks, Status: model.TaskDisabled})
	}},
	{Word: "revoke", Text: "Revoke what was sent", do: revoke(false)},
	{Word: "revoke terminate", Text: "Revoke, and kill what runs", do: revoke(true), Warning: kills},
	{Word: "priority high", Text: "Give high priority", do: setPriority(model.PriorityHigh)},
	{Word: "priority normal", Text: "Give normal priority", do: setPriority(model.PriorityNormal)},
	{Word: "priority low", Text: "Give low priority", do: setPriority(model.PriorityLow)},
	{Word: "priority none", Text: "Take priority away", do: setPriority("")},
	{Word: "release", Text: "Release from its graph", do: release(false)},
	{Word: "release force", Text: "Release, whatever it waits for", do: release(true), Warning: "These tasks run although what they depend on has not ended, or has failed."},
}

// graphAction is something that can be done to a graph. It reports whether there was anything to do.
type graphAction struct {
	Word, Text, Warning string // as those of a taskAction
	do                  func(ctx context.Context, d *Dashboard, tx *db.Tx, graph int64) (bool, error)
}

var graphActions = []graphAction{
	{Word: "retry graph", Text: "Retry what failed", do: func(ctx context.Context, d *Dashboard, _ *db.Tx, graph int64) (bool, error) {
		n, err := taskgraph.Retry(ctx, d.Acts, graph, d.Acts.Now())
		return n > 0, err
	}},
	{Word: "cancel graph", Text: "Cancel what was not sent", do: cancelGraph},
	{Word: "cancel graph terminate", Text: "Cancel, and kill what runs", Warning: kills, do: func(ctx context.Context, d *Dashboard, tx *db.Tx, graph int64) (bool, error) {
		if d.Revoke == nil {
			return false, db.Refused(errNoBroker)
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

// cancelGraph cancels a graph unless it has ended: such a one would be archived later, and what
// extends it would never run.
func cancelGraph(ctx context.Context, d *Dashboard, _ *db.Tx, graph int64) (bool, error) {
	g, err := d.Acts.Graph(ctx, graph)
	if err != nil || g.Open() == 0 {
		return false, err
	}
	return true, taskgraph.Cancel(ctx, d.Acts, graph, d.Acts.Now())
}

func setPriority(p model.TaskPriority) func(context.Context, *Dashboard, *db.Tx, []int64) (int64, error) {
	return func(ctx context.Context, _ *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return tx.SetTaskPriority(ctx, tasks, p)
	}
}

// release releases tasks from their graphs, each in a transaction of its own; with force whatever
// they wait for. Of several it leaves out those that can't be, for instance as a try that was cut off
// has released them.
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

// revoke has workers drop the messages of tasks, and with terminate kill what runs of them. It
// returns of how many tasks there were any.
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
			return 0, db.Refused(errNoBroker)
		}
		return int64(len(of)), d.Revoke(ctx, messages, terminate)
	}
}

// refused makes an error that another try would meet again one that ends the action.
func refused(err error) error {
	if _, ok := errors.AsType[*taskgraph.RefusedError](err); ok || errors.Is(err, model.ErrUnknownGraph) {
		return db.Refused(err)
	}
	return err
}

// Work takes the steps of actions, of all processes, until ctx is done. It does nothing if nobody
// may act.
func (d *Dashboard) Work(ctx context.Context) {
	if !d.Access.canLogIn() && len(d.Access.Proxy.Operators) == 0 {
		return
	}
	const pause = 2 * time.Second
	for ctx.Err() == nil {
		a, err := d.Acts.TakeStep(ctx, d.step)
		if a != nil && !a.Open() { // after each step, readers would share nothing while it runs
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
		if len(step.Graphs) == 0 {
			do, ok := taskActionOf(a.Action)
			if !ok {
				return 0, db.Refused(unknownAction(a.Action))
			}
			return do.do(ctx, d, tx, step.Tasks)
		}
		do, ok := graphActionOf(a.Action)
		if !ok {
			return 0, db.Refused(unknownAction(a.Action))
		}
		for _, graph := range step.Graphs {
			done, err := do.do(ctx, d, tx, graph)
			if errors.Is(err, model.ErrUnknownGraph) && len(a.On.Graphs) != 1 {
				continue // it was archived meanwhile; the others are still to be done
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

// taskActionOf returns the action of a word.
func taskActionOf(word string) (taskAction, bool) {
	i := slices.IndexFunc(taskActions, func(t taskAction) bool { return t.Word == word })
	if i < 0 {
		return taskAction{}, false
	}
	return taskActions[i], true
}

// graphActionOf does so for graphs.
func graphActionOf(word string) (graphAction, bool) {
	i := slices.IndexFunc(graphActions, func(g graphAction) bool { return g.Word == word })
	if i < 0 {
		return graphAction{}, false
	}
	return graphActions[i], true
}

func unknownAction(word string) error {
	return Errorf(http.StatusBadRequest, "There is no action %q.", word)
}

// changeTasks begins an action on the tasks of the form's ids, or with scope "all" on those of its
// filter.
func changeTasks(ctx context.Context, r *Request) (string, error) {
	word := r.PostForm.Get("action")
	do, ok := taskActionOf(word)
	if !ok {
		return "", unknownAction(word)
	}
	all := r.PostForm.Get("scope") == "all"
	query := url.Values{}
	var err error
	if all {
		query, err = parseFilter(r)
	} else {
		query.Set("id", strings.Join(r.PostForm["id"], ","))
	}
	if err != nil {
		return "", err
	}
	filter, err := taskFilter(query)
	if err != nil {
		return "", err
	}
	if !all && len(filter.IDs) == 0 { // it would match all tasks, and nobody would be asked
		return "", Errorf(http.StatusBadRequest, "No task is selected.")
	}
	return r.begin(ctx, word, db.ActionFilter{Tasks: &filter}, all || do.Warning != "")
}

// changeGraphs begins an action on the graphs of the form's ids, or with scope "all" on those of its
// filter.
func changeGraphs(ctx context.Context, r *Request) (string, error) {
	word := r.PostForm.Get("action")
	do, ok := graphActionOf(word)
	if !ok {
		return "", unknownAction(word)
	}
	if r.PostForm.Get("scope") == "all" {
		query, err := parseFilter(r)
		if err != nil {
			return "", err
		}
		filter, err := graphFilter(query)
		if err != nil {
			return "", err
		}
		return r.begin(ctx, word, db.ActionFilter{GraphSearch: &filter}, true)
	}
	var on db.ActionFilter
	for _, id := range r.PostForm["id"] {
		graph, err := strconv.ParseInt(id, 10, 64)
		if err != nil || graph <= 0 {
			return "", Errorf(http.StatusBadRequest, "%q is not the number of a graph.", id)
		}
		on.Graphs = append(on.Graphs, graph)
	}
	if len(on.Graphs) == 0 {
		return "", Errorf(http.StatusBadRequest, "No graph is selected.")
	}
	return r.begin(ctx, word, on, do.Warning != "")
}

// parseFilter reads the filter of a form, the query of a search.
func parseFilter(r *Request) (url.Values, error) {
	query, err := url.ParseQuery(r.PostForm.Get("filter"))
	if err != nil || !isText(query) {
		return nil, Errorf(http.StatusBadRequest, "The filter can't be read.")
	}
	return query, nil
}

// begin notes an action and wakes Work.
func (r *Request) begin(ctx context.Context, word string, on db.ActionFilter, count bool) (string, error) {
	a, err := r.Acts.BeginAction(ctx, r.User.Name, word, on, count)
	if err != nil {
		return "", err
	}
	r.Log.Info("action", "id", a.ID, "who", a.Who, "action", a.Action, "of_all", count)
	r.wake()
	return "/audit/" + strconv.FormatInt(a.ID, 10), nil
}

func (d *Dashboard) wake() {
	select {
	case d.work <- struct{}{}:
	default:
	}
}

func confirmChange(ctx context.Context, r *Request) (string, error) {
	return r.move(ctx, "It was confirmed or cancelled before, or is counted still.", r.Acts.ConfirmAction)
}

func cancelChange(ctx context.Context, r *Request) (string, error) {
	return r.move(ctx, "It has ended.", r.Acts.CancelAction)
}

// move changes the state of an action, or says why that can't be.
func (r *Request) move(ctx context.Context, otherwise string, to func(context.Context, int64) (bool, error)) (string, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return "", Errorf(http.StatusNotFound, "%q is not the number of an action.", r.PathValue("id"))
	}
	moved, err := to(ctx, id)
	if err == nil && !moved {
		err = Errorf(http.StatusConflict, "%s", otherwise)
	}
	r.wake()
	return "/audit/" + strconv.FormatInt(id, 10), err
}

type auditData struct {
	Actions []changeData `json:"actions"` // the newest first
	Next    int64        `json:"next"`    // the page below this number; 0: there is none
}

func audit(ctx context.Context, r *Request) (any, error) {
	below, err := wholeNumber(r.URL.Query(), "below")
	if err != nil {
		return nil, err
	}
	actions, err := r.Acts.Actions(ctx, below, listed)
	d := auditData{}
	for _, a := range actions {
		d.Actions = append(d.Actions, changeData{a})
	}
	if len(actions) == listed {
		d.Next = actions[listed-1].ID
	}
	return d, err
}

type changeData struct{ db.Action }

// PageTitle is the title of the page.
func (c changeData) PageTitle() string { return "Action " + strconv.FormatInt(c.ID, 10) }

// Percent is how far its count, or the action, came, by the numbers of tasks.
func (c changeData) Percent() int64 {
	if c.State == db.ActionDone || c.State == db.ActionCounted {
		return 100
	}
	return 100 * (c.Below - c.Place) / max(1, c.Below)
}

// Warning is what the action may do besides; "" for nothing.
func (c changeData) Warning() string {
	if c.Action.Action == "retry graph" {
		return "It also takes up graphs that were cancelled."
	}
	if do, ok := graphActionOf(c.Action.Action); ok {
		return do.Warning
	}
	do, _ := taskActionOf(c.Action.Action)
	return do.Warning
}

// Waits reports whether it is to be confirmed.
func (c changeData) Waits() bool { return c.State == db.ActionCounted }

func change(ctx context.Context, r *Request) (any, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, Errorf(http.StatusNotFound, "%q is not the number of an action.", r.PathValue("id"))
	}
	a, err := r.Acts.Action(ctx, id)
	if err == nil && a == nil {
		err = Errorf(http.StatusNotFound, "There is no action %d.", id)
	}
	if err != nil {
		return nil, err
	}
	return changeData{*a}, nil
}
