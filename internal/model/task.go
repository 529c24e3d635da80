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

// ParseTaskID returns the id of a message of this program from Celery's text. Celery and task_run.backend_id compare
// texts, so only the canonical text (36 characters, lower case) is an id. Any other text belongs to another program's
// task, even if uuid.Parse accepts it.
func ParseTaskID(text string) (id uuid.UUID, ok bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}

// TaskType declares the Celery task, the intervals and the queue's limit of a kind of task. A nil field is NULL in
// the database.
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

	Routed string // the queue by the configured routes; "" without a route
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

// TaskPolicy says whether a task runs once or repeatedly.
type TaskPolicy string

// The policies of a task (the enum task_policy).
const (
	Recurring TaskPolicy = "recurring"
	Oneshot   TaskPolicy = "oneshot"
)

// TaskPriority is the priority of a task; "" is none.
type TaskPriority string

// The priorities of a task (the enum task_priority), highest first.
const (
	PriorityHigh   TaskPriority = "high"
	PriorityNormal TaskPriority = "normal"
	PriorityLow    TaskPriority = "low"
)

// TaskArguments are a task's arguments as JSON texts, a list and an object. Texts preserve the database's numbers,
// such as integers of 70 bits.
type TaskArguments struct {
	Args   json.RawMessage
	Kwargs json.RawMessage
}

// Task is a row of the table task.
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

// Failed reports whether the status is a failed end.
func (s RunStatus) Failed() bool { return s == RunFailed || s == RunPermFailed || s == RunLost }

// TaskRun is a run of a task that was sent to the workers (a row of the table task_run). A nil field is NULL in the
// database.
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
