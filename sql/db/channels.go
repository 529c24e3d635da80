package db

// These are the channels of LISTEN and NOTIFY.
const (
	GraphChannel    = "scheduler_go_graph"         // tasks of a graph may need a release, or are released
	PriorityChannel = "scheduler_go_priority_task" // a task with a priority may have become ready
	LaneChannel     = "scheduler_go_lanes"         // the backlog of a further lane may have work
)
