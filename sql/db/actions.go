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

// ActionState is how far an action came.
type ActionState string

// The states of an action.
const (
	ActionCounting  ActionState = "counting" // what matches is counted
	ActionCounted   ActionState = "counted"  // it waits to be confirmed
	ActionRunning   ActionState = "running"
	ActionDone      ActionState = "done"
	ActionCancelled ActionState = "cancelled" // where it was
	ActionFailed    ActionState = "failed"
)

// Action is something that somebody does to tasks or graphs. It is kept for 400 days.
type Action struct {
	ID      int64        `json:"id"`
	Who     string       `json:"who"`     // the login
	Address string       `json:"address"` // from where
	Began   time.Time    `json:"began"`
	Action  string       `json:"action"` // a word of the caller's
	On      ActionFilter `json:"on"`
	State   ActionState  `json:"state"`
	Below   int64        `json:"below"` // tasks and graphs of this number or a higher one are left alone
	Place   int64        `json:"place"` // all below is still to be looked at
	InHand  int64        `json:"-"`     // the graph of the step in progress, if graphs are searched; 0: none
	Matched int64        `json:"matched"`
	Changed int64        `json:"changed"`
	Result  string       `json:"result"` // why it failed, or what the last try of a step met
	Ended   *time.Time   `json:"ended"`
	// ConfirmedBy and CancelledBy are who did so, "" for nobody.
	ConfirmedBy string `json:"confirmed_by"`
	CancelledBy string `json:"cancelled_by"`
}

// Open reports whether it has steps to take.
func (a Action) Open() bool { return a.State == ActionCounting || a.State == ActionRunning }

// ActionFilter says to what an action is done, one of these.
type ActionFilter struct {
	Tasks       *TaskSearch    `json:"tasks,omitempty"`
	Graphs      []int64        `json:"graphs,omitempty"`
	GraphSearch *graphs.Search `json:"graph_search,omitempty"`
}

var (
	// actionTasks bounds the tasks of one step. Tests have fewer.
	actionTasks = 1000
	// actionRetry is after what time a step that failed is taken again. In tests it is shorter.
	actionRetry = 10 * time.Second
)

// BeginAction records an action on the tasks or graphs that exist now. TakeStep does it, step by
// step. With count, TakeStep first counts what matches, and the action waits for ConfirmAction. who acts from
// an address.
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

// A Step is a part of an action: some tasks, or one graph; several graphs if it counts.
type Step struct {
	Tasks  []int64
	Graphs []int64
}

// TakeStep takes a step of the open action that has waited longest for one, among those whose rows no
// other process has locked. do does the step, in the transaction that records the action's
// progress, so exactly once, and returns how many tasks or graphs it changed. A *postgres.RefusedError ends
// the action; after another error the step is tried again ten seconds later. TakeStep returns the
// action as it is afterwards, nil if none is open.
func (s ActionStore) TakeStep(ctx context.Context, do func(ctx context.Context, tx *Tx, a Action, step Step) (int64, error)) (*Action, error) {
	var taken *Action
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.q.NextAction(ctx)
		if err != nil || len(rows) == 0 {
			return stmt.Failed(err, "look for actions")
		}
		a, err := actionOf(rows[0])
		if err != nil {
			return err
		}
		taken = &a
		// Without a condition that only a newer program knows, more would match.
		strict := json.NewDecoder(bytes.NewReader(rows[0].Filter))
		strict.DisallowUnknownFields()
		if err := strict.Decode(new(ActionFilter)); err != nil {
			return fmt.Errorf("its filter needs a newer program: %w", err)
		}
		step, next, err := tx.nextStep(ctx, a)
		if err != nil {
			return err
		}
		n := int64(len(step.Tasks) + len(step.Graphs))
		p := queries.StepActionParams{ID: a.ID, Place: next, State: string(a.State)}
		switch {
		case a.State == ActionCounting:
			p.Matched = n
		case n > 0 && a.On.GraphSearch != nil && a.InHand == 0:
			// Recorded first: do may change what the graph is found by, and then fail.
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

// nextStep returns the next step of an action, and the place after it; 0 after the last one.
func (tx *Tx) nextStep(ctx context.Context, a Action) (step Step, next int64, err error) {
	switch {
	case a.InHand > 0 && a.State == ActionRunning:
		return Step{Graphs: []int64{a.InHand}}, a.InHand, nil
	case a.On.GraphSearch != nil:
		limit := 1
		if a.State == ActionCounting {
			limit = actionTasks
		}
		tasks := 0
		if a.On.GraphSearch.State != "" && a.On.GraphSearch.State != "cancelled" {
			tasks = math.MaxInt // all: pages look at the last ones only
		}
		found, err := tx.FindGraphs(ctx, *a.On.GraphSearch, a.Place, limit, tasks)
		for _, g := range found.Graphs {
			step.Graphs = append(step.Graphs, g.ID)
		}
		return step, found.Next, err
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

// ConfirmAction starts an action that waits for it, and reports whether it did wait.
func (s ActionStore) ConfirmAction(ctx context.Context, id int64, who string) (bool, error) {
	n, err := s.q.ConfirmAction(ctx, queries.ConfirmActionParams{ID: id, Who: who})
	return n > 0, stmt.Failed(err, "confirm action %d", id)
}

// CancelAction ends an action, after a step in progress, and reports whether it had not ended.
func (s ActionStore) CancelAction(ctx context.Context, id int64, who string) (bool, error) {
	n, err := s.q.CancelAction(ctx, queries.CancelActionParams{ID: id, Who: who})
	return n > 0, stmt.Failed(err, "cancel action %d", id)
}

// Action returns the action of a number, nil if there is none.
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

// Actions lists the actions of numbers below a given one (0: all), the newest first.
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
		a.InHand = *r.InHand
	}
	return a, stmt.Failed(json.Unmarshal(r.Filter, &a.On), "read the filter of action %d", r.ID)
}
