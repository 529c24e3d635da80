// Package graphs is a model of graphs of tasks.
//
// It has the tasks of a graph with their conditions, and the triggers that record ends. The drain settles affected
// tasks, in steps that each commit, while runs end. An operator cancels, extends, retries and respawns. A task is
// settled as by settle_graph_tasks (sql/migrations/00490_graphs.sql): each waiting task watches one dependency that
// has not ended.
package graphs

import "swh-scheduler/test/model/check"

const tasks = 4 // at most; a task depends on earlier ones

// State is a state of the model.
type State struct {
	Tasks     [tasks]Task
	Cancelled bool
	Retrying  uint8 // the next task that a retry reopens, from 1
	Extending bool  // the transaction of an extension is open
	Late      bool  // an extension was stored in a cancelled graph
	Left      Faults
}

// Task is a task of the graph.
type Task struct {
	Status  Status
	Watch   uint8 // the dependency that it watches, from 1; 0: none
	Change  bool  // its end or its reopening is recorded
	Check   bool  // it is to be settled
	Overdue bool
	Retries bool // a failed run is retried once

	Choosing uint8 // with the mistake UnlockedWatch: the task that it is about to watch, from 1

	// What must not happen, and did.
	Early, Late, Again bool // released before what it needs, or after its deadline; run again though cancelled
}

// Status is the state of a task.
type Status uint8

// States of tasks.
const (
	Absent Status = iota // to be added by an extension
	Waiting
	Ready
	Running
	Completed
	Failed
	ByDependency
	Skipped
	ByDeadline
	ByCancel
)

func (s Status) open() bool  { return s == Waiting || s == Ready || s == Running }
func (s Status) ended() bool { return s > Running }

// failed says whether dependents count the task as failed.
func (s Status) failed() bool { return s.ended() && s != Completed && s != Skipped }

// Condition is the required end of a dependency.
type Condition uint8

// Conditions.
const (
	No Condition = iota // no dependency
	Success
	Failure
	End
)

// Graph has the conditions of each task on earlier ones.
type Graph struct {
	Needs    [tasks][tasks]Condition
	Deadline [tasks]bool
	Retries  [tasks]bool
	Added    [tasks]bool // by an extension
}

// Faults are the events that may still happen.
type Faults struct {
	Failures, Deadlines, Cancels, Extensions, Retries, Respawns uint8
}

// Rules are the correct rules with at most one mistake.
type Rules struct {
	RetryInBatches    bool // a drain may come between the batches of a retry
	RespawnEarly      bool // tasks are released while a respawned task's dependents are not open again
	CancelUnlocked    bool // a cancel doesn't wait for an extension
	UnlockedWatch     bool // the watched dependency is chosen, and written later, without a lock
	AnyEnd            bool // a task that requires success runs after any end
	FailureUnnoted    bool // a failure is recorded only if it is watched
	NoDeadline        bool // deadlines are ignored
	CancelRetries     bool // a run that fails after a cancel is retried
	SkipsAtOnce       bool // a task is skipped before all of its dependencies have ended
	ExtensionUnlooked bool // a task whose dependencies change is not settled
}

// Model is the protocol for a graph, with rules.
func Model(g Graph, left Faults, rules Rules) check.Model[State] {
	var initial State
	initial.Left = left
	for i := range initial.Tasks {
		t := &initial.Tasks[i]
		t.Status, t.Retries = Ready, g.Retries[i]
		for d := range i {
			if g.Needs[i][d] != No && !g.Added[d] {
				t.Status, t.Watch = Waiting, uint8(d+1)
			}
		}
		if g.Added[i] {
			*t = Task{}
		}
	}
	return check.Model[State]{
		Initial: initial,
		Next: func(s State, to *check.Steps[State]) {
			w := world{graph: g, rules: rules, to: to}
			w.runs(s)
			w.drain(s)
			w.operator(s)
		},
		Always: []check.Property[State]{
			{Name: "no task runs before what it needs", Holds: none(func(t Task) bool { return t.Early })},
			{Name: "no task runs after its deadline", Holds: none(func(t Task) bool { return t.Late })},
			{Name: "what is cancelled is not tried again", Holds: none(func(t Task) bool { return t.Again })},
			{Name: "all stand as their dependencies say", Holds: func(s State) bool { return s.asSaid(g) }},
			{Name: "nothing is added to a cancelled graph", Holds: func(s State) bool { return !s.Late }},
		},
		Eventually: []check.Property[State]{
			{Name: "each task ends", Holds: func(s State) bool {
				for _, t := range s.Tasks {
					if t.Status.open() || t.Check || t.Change || t.Choosing > 0 {
						return false
					}
				}
				return s.Retrying == 0 && !s.Extending
			}},
		},
	}
}

func none(bad func(Task) bool) func(State) bool {
	return func(s State) bool {
		for _, t := range s.Tasks {
			if bad(t) {
				return false
			}
		}
		return true
	}
}

// asSaid says whether all tasks are as documented once the drain has nothing to do, for any order of ends.
func (s State) asSaid(g Graph) bool {
	if s.Retrying > 0 || s.Extending || s.Cancelled {
		return true
	}
	for _, t := range s.Tasks {
		if t.Change || t.Check || t.Choosing > 0 || t.Overdue && t.Status == Waiting {
			return true
		}
	}
	for i, t := range s.Tasks {
		unmet, fate := s.fate(g, i, Task.now)
		switch {
		case t.Overdue:
		case t.Status == Waiting && (!unmet || fate == ByDependency),
			t.Status == ByDependency && fate != ByDependency,
			t.Status == Skipped && (fate != Skipped || unmet):
			return false
		}
	}
	return true
}

func (t Task) now(int) Status { return t.Status }

// fate returns whether a dependency of a task has not ended, and the result of the ended ones: ByDependency, Skipped,
// or Absent for none. status returns the status of a dependency.
func (s State) fate(g Graph, i int, status func(Task, int) Status) (unmet bool, fate Status) {
	for d := range i {
		need := g.Needs[i][d]
		if need == No || s.Tasks[d].Status == Absent {
			continue
		}
		switch status := status(s.Tasks[d], d); {
		case !status.ended():
			unmet = true
		case need == End, need == Success && status == Completed, need == Failure && status.failed():
		case need == Success && status.failed():
			fate = ByDependency
		case fate == Absent:
			fate = Skipped
		}
	}
	return unmet, fate
}

// final returns the status of a task, or Waiting if a retry or respawn in progress will reopen it.
func (s State) final(g Graph) func(Task, int) Status {
	var final func(Task, int) Status
	final = func(t Task, d int) Status {
		switch {
		case s.Retrying > 0 && int(s.Retrying) <= d+1 && t.Status.ended() && t.Status != Completed:
			return Waiting
		case (t.Status == ByDependency || t.Status == Skipped) && !t.Overdue:
			if unmet, fate := s.fate(g, d, final); fate != t.Status || t.Status == Skipped && unmet {
				return Waiting
			}
		}
		return t.Status
	}
	return final
}

// early says whether a task must not be released: a dependency has not ended, has ended otherwise than required, or
// will be reopened.
func (s State) early(g Graph, i int) bool {
	unmet, fate := s.fate(g, i, s.final(g))
	return unmet || fate != Absent
}
