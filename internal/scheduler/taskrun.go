package scheduler

import (
	"encoding/json"
	"time"
)

// TaskRun is one run of a task that was sent to the workers (a row of the table
// task_run). A nil field is NULL in the database.
type TaskRun struct {
	ID        int64
	Task      int64
	BackendID *string // Celery's id of the run
	Scheduled *time.Time
	Started   *time.Time
	Ended     *time.Time
	Metadata  json.RawMessage // a JSON object
	Status    RunStatus
}
