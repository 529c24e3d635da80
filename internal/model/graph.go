package model

// GraphState is the state of a task of a graph.
type GraphState string

// The states of a graph's tasks. Tasks in the last four never run unless somebody
// retries them, or what they depend on.
const (
	GraphWaiting   GraphState = "waiting"   // for its dependencies
	GraphReady     GraphState = "ready"     // to be sent, or to be tried again later
	GraphRunning   GraphState = "running"   // sent
	GraphCompleted GraphState = "completed" // for good
	GraphFailed    GraphState = "failed"    // for good, or disabled by hand, or deleted before it ended

	GraphByDependency GraphState = "dependency" // one of its dependencies failed
	GraphSkipped      GraphState = "skipped"    // a dependency ended otherwise than it asks for, and did not fail
	GraphByDeadline   GraphState = "deadline"   // it waited too long
	GraphCancelled    GraphState = "cancelled"  // with its graph
)

// GraphStates are all states, in the order of a task's life.
var GraphStates = []GraphState{
	GraphWaiting, GraphReady, GraphRunning, GraphCompleted,
	GraphFailed, GraphByDependency, GraphSkipped, GraphByDeadline, GraphCancelled,
}

// Open reports whether the task has not ended yet.
func (s GraphState) Open() bool { return s == GraphWaiting || s == GraphReady || s == GraphRunning }
