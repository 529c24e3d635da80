package db

// Channels of notifications.
const (
	GraphChannel    = "scheduler_go_graph"         // tasks of graphs may have to be released, or have been
	PriorityChannel = "scheduler_go_priority_task" // a task with priority may have become ready
	LaneChannel     = "scheduler_go_lanes"         // work may have come into the backlog of a further lane
)
