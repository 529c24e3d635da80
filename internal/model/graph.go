package model

// GraphState is the state of a task of a graph.
type GraphState string

// The states of a graph's tasks. Tasks in the last four never run unless somebody
// retries them, or what they depend on.
const (
	GraphWaiting   GraphState = "waiting"   // for its dependencies
	GraphReady     GraphState = "ready"     // to be sent, or to be tried again later
	GraphSent      GraphState = "sent"      // no worker is known to have begun it
	GraphRunning   GraphState = "running"   // a worker has begun it
	GraphCompleted GraphState = "completed" // for good
	GraphFailed    GraphState = "failed"    // for good, or disabled by hand, or deleted before it ended

	GraphByDependency GraphState = "dependency" // one of its dependencies failed
	GraphSkipped      GraphState = "skipped"    // a dependency ended otherwise than it asks for, and did not fail
	GraphByDeadline   GraphState = "deadline"   // it waited too long
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

// WithWorkers reports whether the task was sent, and is not known to have ended.
func (s GraphState) WithWorkers() bool { return s == GraphSent || s == GraphRunning }
