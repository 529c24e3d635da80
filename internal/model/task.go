package model

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Errors that callers test for with errors.Is.
var (
	ErrUnknownTaskType = errors.New("unknown task type")
	ErrUnknownPolicy   = errors.New("unknown scheduling policy") // the Python scheduler's UnknownPolicy
	ErrStaleData       = errors.New("stale data")                // the Python scheduler's StaleData
	ErrUnknownLister   = errors.New("unknown lister")
	ErrUnknownGraph    = errors.New("unknown graph")
)

// ParseTaskID returns the id of a message of ours, by Celery's text for it. Celery and
// task_run.backend_id compare texts, so only the canonical one (36 characters, lower case) is
// an id. Every other text, also one that uuid.Parse takes, belongs to somebody else's task.
func ParseTaskID(text string) (id uuid.UUID, ok bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}

// TaskType declares which Celery task runs a kind of task, how often, and how many may
// be in its queue. A nil field is NULL in the database.
type TaskType struct {
	Type            string
	Description     string
	BackendName     string // the Celery task's name
	DefaultInterval *time.Duration
	MinInterval     *time.Duration
	MaxInterval     *time.Duration
	BackoffFactor   *float64
	MaxQueueLength  *int64
	NumRetries      *int64
	RetryDelay      *time.Duration

	Routed string // the queue by the configured routes; "" if there are none
}

// TaskStatus is the status of a task between two runs.
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

// TaskArguments are a task's arguments as JSON texts, a list and an object, so that
// numbers reach the worker as they are in the database (no float for 70 bits).
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

// Failed reports whether a run of this status ended otherwise than it should.
func (s RunStatus) Failed() bool { return s == RunFailed || s == RunPermFailed || s == RunLost }

// TaskRun is one run of a task that was sent to the workers (a row of the table
// task_run). A nil field is NULL in the database.
type TaskRun struct {
	ID        int64
	Task      int64
	BackendID *string // Celery's task id
	Scheduled *time.Time
	Started   *time.Time
	Ended     *time.Time
	Metadata  json.RawMessage // a JSON object
	Status    RunStatus
}
