package scheduler

import (
	"encoding/json"
	"time"
)

// TaskType declares a kind of task: which Celery task runs it, how often, and
// how many of it may wait in its queue. A nil field is NULL in the database.
type TaskType struct {
	Type            string
	Description     string
	BackendName     string // the Celery task's name, and the name of its queue
	DefaultInterval *time.Duration
	MinInterval     *time.Duration
	MaxInterval     *time.Duration
	BackoffFactor   *float64
	MaxQueueLength  *int64
	NumRetries      *int64
	RetryDelay      *time.Duration
}

// TaskStatus is where a task stands between two runs.
type TaskStatus string

// The statuses of a task (the enum task_status).
const (
	TaskNotScheduled TaskStatus = "next_run_not_scheduled"
	TaskScheduled    TaskStatus = "next_run_scheduled"
	TaskCompleted    TaskStatus = "completed"
	TaskDisabled     TaskStatus = "disabled"
)

// TaskPolicy says whether a task runs once or again and again.
type TaskPolicy string

// The policies of a task (the enum task_policy).
const (
	Recurring TaskPolicy = "recurring"
	Oneshot   TaskPolicy = "oneshot"
)

// TaskPriority is empty for a task without priority.
type TaskPriority string

// The priorities of a task (the enum task_priority), highest first.
const (
	PriorityHigh   TaskPriority = "high"
	PriorityNormal TaskPriority = "normal"
	PriorityLow    TaskPriority = "low"
)

// TaskArguments are a task's arguments as JSON texts: Args a list, Kwargs an
// object. They are kept as text so that numbers reach the worker as they stand
// in the database (no float for an integer of 70 bits).
type TaskArguments struct {
	Args   json.RawMessage
	Kwargs json.RawMessage
}

// Task is one row of the table task.
type Task struct {
	ID              int64
	Type            string
	Arguments       TaskArguments
	NextRun         time.Time
	CurrentInterval *time.Duration
	Status          TaskStatus
	Policy          TaskPolicy
	RetriesLeft     int64
	Priority        TaskPriority // "" where NULL
}

// RunStatus is the state of one run of a task.
type RunStatus string

// The statuses of a run (the enum task_run_status).
const (
	RunScheduled  RunStatus = "scheduled"
	RunStarted    RunStatus = "started"
	RunEventful   RunStatus = "eventful"
	RunUneventful RunStatus = "uneventful"
	RunFailed     RunStatus = "failed"
	RunPermFailed RunStatus = "permfailed"
	RunLost       RunStatus = "lost"
)
