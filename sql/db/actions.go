package db

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"swh-scheduler/sql/graphs"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// ActionState is the progress of an action.
type ActionState string

// The states of an action.
const (
	ActionCounting  ActionState = "counting" // steps count the matching tasks or graphs
	ActionCounted   ActionState = "counted"  // waits for ConfirmAction
	ActionRunning   ActionState = "running"
	ActionDone      ActionState = "done"
	ActionCancelled ActionState = "cancelled" // keeps the changes of the steps before
	ActionFailed    ActionState = "failed"
)

// Action is a change to tasks, graphs or a hoster that a person asks for. Forget deletes it after 400 days.
type Action struct {
	ID              int64        `json:"id"`
	Who             string       `json:"who"`     // the login
	Address         string       `json:"address"` // the address of the login
	Began           time.Time    `json:"began"`
	Action          string       `json:"action"` // a word that the caller chooses
	On              ActionFilter `json:"on"`
	State           ActionState  `json:"state"`
	Below           int64        `json:"below"` // only tasks and graphs with lower numbers are changed
	Place           int64        `json:"place"` // steps go down from here: lower numbers are still to come
	GraphInProgress int64        `json:"-"`     // the graph of the step in progress, for a graph search; 0: none
	Matched         int64        `json:"matched"`
	Changed         int64        `json:"changed"`
	Result          string       `json:"result"` // the cause of the failure, or the error of the last step
	Ended           *time.Time   `json:"ended"`
	// ConfirmedBy and CancelledBy are logins; "" if nobody did so.
	ConfirmedBy string `json:"confirmed_by"`
	CancelledBy string `json:"cancelled_by"`
}

// Open reports whether the action has further steps.
func (a Action) Open() bool { return a.State == ActionCounting || a.State == ActionRunning }

// ActionFilter selects an action's tasks, graphs or hoster by one of its fields.
type ActionFilter struct {
	Tasks       *TaskSearch    `json:"tasks,omitempty"`
	Graphs      []int64        `json:"graphs,omitempty"`
	GraphSearch *graphs.Search `json:"graph_search,omitempty"`
	Hoster      string         `json:"hoster,omitempty"`
}

var (
	// actionTasks bounds the tasks of one step. Tests set it lower.
	actionTasks = 1000
	// actionRetry is the wait before a failed step is tried again. Tests set it shorter.
	actionRetry = 10 * time.Second
)

// BeginAction records an action on the tasks or graphs that exist now; TakeStep does it step by step. With
// count, TakeStep first counts the matches, and the action then waits for ConfirmAction. who is the login,
// address the login's address.
func (s ActionStore) BeginAction(ctx context.Context, who, address, action string, on ActionFilter, count bool) (Action, error) {
	filter, err := json.Marshal(on)
	if err != nil {
		return Action{}, err
	}
	state := ActionRunning
	if count {
		state = ActionCounting
	}
	row, err := s.q.BeginAction(ctx, queries.BeginActionParams{Who: who, Address: address, Action: action, Filter: filter, State: string(state), OfTasks: on.Tasks != nil})
	if err != nil {
		return Action{}, stmt.Failed(err, "record the action %s", action)
	}
	return actionOf(row)
}

// A Step is a part of an action: some tasks, one graph, or a hoster. A counting step may have several graphs.
type Step struct {
	Tasks  []int64
	Graphs []int64
	Hoster string
}

// size returns the number of tasks, graphs and hosters of the step.
func (s Step) size() int64 {
	n := len(s.Tasks) + len(s.Graphs)
	if s.Hoster != "" {
		n++
	}
	return int64(n)
}

// TakeStep takes the next step of an open action: of those without a row lock, the one with the oldest last
// step. do does the step in the transaction that records the action's progress, so exactly once. do returns
// the number of tasks or graphs that it changed. A *postgres.RefusedError ends the action. After another
// error TakeStep repeats the step ten seconds later. TakeStep returns the action as of its end, or nil if
// no action is open.
func (s ActionStore) TakeStep(ctx context.Context, do func(ctx context.Context, tx *Tx, a Action, step Step) (int64, error)) (*Action, error) {
	var taken *Action
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.q.NextAction(ctx)
		if err != nil || len(rows) == 0 {
			return stmt.Failed(err, "find actions")
		}
		a, err := actionOf(rows[0])
		if err != nil {
			return err
		}
		taken = &a
		// The filter of a newer program may have further conditions. Without them, more rows would match.
		strict := json.NewDecoder(bytes.NewReader(rows[0].Filter))
		strict.DisallowUnknownFields()
		if err := strict.Decode(new(ActionFilter)); err != nil {
			return fmt.Errorf("its filter needs a newer program: %w", err)
		}
		step, next, err := tx.nextStep(ctx, a)
		if err != nil {
			return err
		}
		n := step.size()
		p := queries.StepActionParams{ID: a.ID, Place: next, State: string(a.State)}
		switch {
		case a.State == ActionCounting:
			p.Matched = n
		case n > 0 && a.On.GraphSearch != nil && a.GraphInProgress == 0:
			// This step only records the graph: do may change the graph so that the search misses it, and
			// then fail.
			p.Place, p.InHand, next = a.Place, &step.Graphs[0], a.Place
		case n > 0:
			if p.Changed, err = do(ctx, tx, a, step); err != nil {
				return err
			}
		}
		if next == 0 {
			p.State = string(ActionDone)
			if a.State == ActionCounting {
				p.State = string(ActionCounted)
			}
		}
		row, err := tx.q.StepAction(ctx, p)
		if err == nil {
			a, err = actionOf(row)
		}
		return stmt.Failed(err, "record a step of action %d", a.ID)
	})
	if err == nil || taken == nil {
		return taken, err
	}
	err = postgres.AsRefused(err)
	if _, refuses := errors.AsType[*postgres.RefusedError](err); refuses {
		taken.State = ActionFailed
	}
	note := s.q.FailAction(context.WithoutCancel(ctx), queries.FailActionParams{ID: taken.ID, State: string(taken.State), Result: err.Error(), AfterSeconds: actionRetry.Seconds()})
	return taken, errors.Join(fmt.Errorf("action %d (%s): %w", taken.ID, taken.Action, err), note)
}

// nextStep returns an action's next step and the place after it; place 0 is the end.
func (tx *Tx) nextStep(ctx context.Context, a Action) (step Step, next int64, err error) {
	switch {
	case a.GraphInProgress > 0 && a.State == ActionRunning:
		return Step{Graphs: []int64{a.GraphInProgress}}, a.GraphInProgress, nil
	case a.On.GraphSearch != nil:
		limit := 1
		if a.State == ActionCounting {
			limit = actionTasks
		}
		tasks := 0
		if a.On.GraphSearch.State != "" && a.On.GraphSearch.State != "cancelled" {
			tasks = math.MaxInt // read all tasks: pages read only the last ones
		}
		found, err := tx.FindGraphs(ctx, *a.On.GraphSearch, a.Place, limit, tasks)
		for _, g := range found.Graphs {
			step.Graphs = append(step.Graphs, g.ID)
		}
		return step, found.Next, err
	case a.On.Hoster != "":
		return Step{Hoster: a.On.Hoster}, 0, nil
	case a.On.Tasks == nil:
		left := slices.DeleteFunc(slices.Clone(a.On.Graphs), func(graph int64) bool { return graph >= a.Place })
		if len(left) == 0 {
			return step, 0, nil
		}
		last := slices.Max(left)
		if slices.Min(left) < last {
			next = last
		}
		return Step{Graphs: []int64{last}}, next, nil
	}
	found, err := tx.findTasks(ctx, *a.On.Tasks, a.Place, actionTasks)
	for _, t := range found.Tasks {
		step.Tasks = append(step.Tasks, t.ID)
	}
	return step, found.Next, err
}

// ConfirmAction starts an action that waits for it. It reports whether the action waited.
func (s ActionStore) ConfirmAction(ctx context.Context, id int64, who string) (bool, error) {
	n, err := s.q.ConfirmAction(ctx, queries.ConfirmActionParams{ID: id, Who: who})
	return n > 0, stmt.Failed(err, "confirm action %d", id)
}

// CancelAction ends an action after the step in progress. It reports whether the action was open or
// waiting.
func (s ActionStore) CancelAction(ctx context.Context, id int64, who string) (bool, error) {
	n, err := s.q.CancelAction(ctx, queries.CancelActionParams{ID: id, Who: who})
	return n > 0, stmt.Failed(err, "cancel action %d", id)
}

// Action returns the action with the number, or nil if there is none.
func (s ActionStore) Action(ctx context.Context, id int64) (*Action, error) {
	rows, err := s.q.Action(ctx, id)
	if err != nil || len(rows) == 0 {
		return nil, stmt.Failed(err, "read action %d", id)
	}
	a, err := actionOf(rows[0])
	return &a, err
}

// OpenActions counts the open actions.
func (s ActionStore) OpenActions(ctx context.Context) (int64, error) {
	n, err := s.q.OpenActions(ctx)
	return n, stmt.Failed(err, "count actions")
}

// Actions lists up to limit actions with numbers below the given one (0: all), the newest first.
func (s ActionStore) Actions(ctx context.Context, below int64, limit int) ([]Action, error) {
	rows, err := s.q.Actions(ctx, queries.ActionsParams{Below: below, MaxActions: int64(limit)})
	if err != nil {
		return nil, stmt.Failed(err, "read actions")
	}
	actions := make([]Action, len(rows))
	for i, row := range rows {
		if actions[i], err = actionOf(row); err != nil {
			return nil, err
		}
	}
	return actions, nil
}

func actionOf(r queries.SchedulerGoAction) (Action, error) {
	a := Action{
		ID: r.ID, Who: r.Who, Began: r.Began, Action: r.Action, State: ActionState(r.State), Below: r.Below, Place: r.Place,
		Matched: r.Matched, Changed: r.Changed, Result: r.Result, Ended: r.Ended,
		Address: r.Address, ConfirmedBy: r.ConfirmedBy, CancelledBy: r.CancelledBy,
	}
	if r.InHand != nil {
		a.GraphInProgress = *r.InHand
	}
	return a, stmt.Failed(json.Unmarshal(r.Filter, &a.On), "read the filter of action %d", r.ID)
}
