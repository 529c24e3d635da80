package model

// GraphState is the state of a task of a graph.
type GraphState string

// The states of a graph's tasks. Tasks in the last four states run only after a retry of them or of their
// dependencies.
const (
	GraphWaiting   GraphState = "waiting"   // its dependencies have not ended
	GraphReady     GraphState = "ready"     // to be sent, perhaps after a retry's delay
	GraphSent      GraphState = "sent"      // without a known start
	GraphRunning   GraphState = "running"   // started by a worker
	GraphCompleted GraphState = "completed" // for good
	GraphFailed    GraphState = "failed"    // for good, or disabled by an operator, or deleted before its end

	GraphByDependency GraphState = "dependency" // one of its dependencies failed
	GraphSkipped      GraphState = "skipped"    // a dependency's end didn't meet its condition, without a failure
	GraphByDeadline   GraphState = "deadline"   // its deadline passed while it waited
	GraphCancelled    GraphState = "cancelled"  // with its graph
)

// GraphStates are all states, in the order of a task's life.
var GraphStates = []GraphState{
	GraphWaiting, GraphReady, GraphSent, GraphRunning, GraphCompleted,
	GraphFailed, GraphByDependency, GraphSkipped, GraphByDeadline, GraphCancelled,
}

// Open reports whether the task has not ended yet.
func (s GraphState) Open() bool {
	return s == GraphWaiting || s == GraphReady || s.WithWorkers()
}

// WithWorkers reports whether the task was sent and has no known end.
func (s GraphState) WithWorkers() bool { return s == GraphSent || s == GraphRunning }
