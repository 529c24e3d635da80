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
	Word string
	Text string // for people
	do   func(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (int64, error)
}

var taskActions = []taskAction{
	{"respawn", "Run again now", func(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return int64(len(tasks)), tx.SetTaskStatus(ctx, db.StatusChange{IDs: tasks, Status: model.TaskNotScheduled, NextRun: d.Acts.Now()})
	}},
	{"disable", "Disable", func(ctx context.Context, _ *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return int64(len(tasks)), tx.SetTaskStatus(ctx, db.StatusChange{IDs: tasks, Status: model.TaskDisabled})
	}},
	{"revoke", "Revoke what was sent", revoke},
	{"priority high", "Give high priority", setPriority(model.PriorityHigh)},
	{"priority normal", "Give normal priority", setPriority(model.PriorityNormal)},
	{"priority low", "Give low priority", setPriority(model.PriorityLow)},
	{"priority none", "Take priority away", setPriority("")},
	{"release", "Release from its graph", release},
}

// graphActions are what can be done to graphs, by their words.
var graphActions = map[string]func(ctx context.Context, d *Dashboard, graph int64) error{
	"cancel graph": func(ctx context.Context, d *Dashboard, graph int64) error {
		return taskgraph.Cancel(ctx, d.Acts, graph, d.Acts.Now())
	},
	"retry graph": func(ctx context.Context, d *Dashboard, graph int64) error {
		_, err := taskgraph.Retry(ctx, d.Acts, graph, d.Acts.Now())
		return err
	},
}

func setPriority(p model.TaskPriority) func(context.Context, *Dashboard, *db.Tx, []int64) (int64, error) {
	return func(ctx context.Context, _ *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
		return tx.SetTaskPriority(ctx, tasks, p)
	}
}

// release releases tasks from their graphs, each in a transaction of its own. Of several it leaves
// out those that can't be, for instance as a try that was cut off has released them.
func release(ctx context.Context, d *Dashboard, _ *db.Tx, tasks []int64) (released int64, err error) {
	for _, task := range tasks {
		_, err := taskgraph.Release(ctx, d.Acts, task, false, d.Acts.Now())
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

// revoke has workers drop the messages of tasks. It returns of how many tasks there were any.
func revoke(ctx context.Context, d *Dashboard, tx *db.Tx, tasks []int64) (int64, error) {
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
	return int64(len(of)), d.Revoke(ctx, messages)
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
		if a != nil {
			d.data.forget()
		}
		if err != nil && ctx.Err() == nil {
			if held, ok := d.failures.Log(""); ok {
				d.Log.Warn("a step of an action failed", "error", err, "not_logged_before", held)
			}
		}
		if a != nil && err == nil {
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
	if step.Graph != 0 {
		do, ok := graphActions[a.Action]
		if !ok {
			return 0, unknownAction(a.Action)
		}
		return 1, refused(do(ctx, d, step.Graph))
	}
	i := slices.IndexFunc(taskActions, func(t taskAction) bool { return t.Word == a.Action })
	if i < 0 {
		return 0, unknownAction(a.Action)
	}
	return taskActions[i].do(ctx, d, tx, step.Tasks)
}

func unknownAction(word string) error {
	return db.Refused(Errorf(http.StatusBadRequest, "There is no action %q.", word))
}

// changeTasks begins an action on the tasks of the form's ids, or with scope "all" on those of its
// filter.
func changeTasks(ctx context.Context, r *Request) (string, error) {
	word := r.PostForm.Get("action")
	if !slices.ContainsFunc(taskActions, func(t taskAction) bool { return t.Word == word }) {
		return "", Errorf(http.StatusBadRequest, "There is no action %q.", word)
	}
	all := r.PostForm.Get("scope") == "all"
	query := url.Values{}
	var err error
	if all {
		query, err = url.ParseQuery(r.PostForm.Get("filter"))
	} else {
		query.Set("id", strings.Join(r.PostForm["id"], ","))
	}
	if err != nil {
		return "", Errorf(http.StatusBadRequest, "The filter can't be read.")
	}
	filter, err := taskFilter(query)
	if err != nil {
		return "", err
	}
	if !all && len(filter.IDs) == 0 { // it would match all tasks, and nobody would be asked
		return "", Errorf(http.StatusBadRequest, "No task is selected.")
	}
	return r.begin(ctx, word, db.ActionFilter{Tasks: &filter}, all)
}

// changeGraphs begins an action on the graphs of the form's ids.
func changeGraphs(ctx context.Context, r *Request) (string, error) {
	word := r.PostForm.Get("action")
	if graphActions[word] == nil {
		return "", Errorf(http.StatusBadRequest, "There is no action %q.", word)
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
	return r.begin(ctx, word, on, false)
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
