package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/pflag"

	"swh-scheduler/internal/scheduler"
)

// outputFlag adds --output to a command whose text scripts may want as JSON.
func outputFlag(flags *pflag.FlagSet, output *string) {
	flags.Var(choice{output, []string{"text", "json"}}, "output", "form of the output: text or json")
}

// printJSON prints a result as JSON. Dates are in UTC, intervals in seconds.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

type taskObject struct {
	ID              int64                  `json:"id"`
	Type            string                 `json:"type"`
	Arguments       argumentsObject        `json:"arguments"`
	NextRun         time.Time              `json:"next_run"`
	CurrentInterval *float64               `json:"current_interval"`
	Status          scheduler.TaskStatus   `json:"status"`
	Policy          scheduler.TaskPolicy   `json:"policy"`
	RetriesLeft     int64                  `json:"retries_left"`
	Priority        scheduler.TaskPriority `json:"priority,omitempty"`
	NotSent         []notSentObject        `json:"not_sent,omitempty"`
	Runs            []runObject            `json:"runs,omitempty"`
}

type argumentsObject struct {
	Args   json.RawMessage `json:"args"`
	Kwargs json.RawMessage `json:"kwargs"`
}

// notSentObject is a message that the broker refused.
type notSentObject struct {
	Attempts int32     `json:"attempts"`
	Reason   string    `json:"reason"`
	Again    time.Time `json:"again"`
}

type runObject struct {
	BackendID *string             `json:"backend_id"`
	Status    scheduler.RunStatus `json:"status"`
	Scheduled *time.Time          `json:"scheduled"`
	Started   *time.Time          `json:"started"`
	Ended     *time.Time          `json:"ended"`
	Metadata  json.RawMessage     `json:"metadata,omitempty"`
}

func taskObjects(tasks []scheduler.Task) []taskObject {
	objects := make([]taskObject, len(tasks))
	for i, t := range tasks {
		objects[i] = taskObject{
			ID: t.ID, Type: t.Type, Arguments: argumentsObject(t.Arguments), NextRun: t.NextRun.UTC(),
			CurrentInterval: inSeconds(t.CurrentInterval), Status: t.Status, Policy: t.Policy,
			RetriesLeft: t.RetriesLeft, Priority: t.Priority,
		}
	}
	return objects
}

type taskTypeObject struct {
	Type            string   `json:"type"`
	BackendName     string   `json:"backend_name"`
	Description     string   `json:"description"`
	DefaultInterval *float64 `json:"default_interval"`
	MinInterval     *float64 `json:"min_interval"`
	MaxInterval     *float64 `json:"max_interval"`
	BackoffFactor   *float64 `json:"backoff_factor"`
	MaxQueueLength  *int64   `json:"max_queue_length"`
	NumRetries      *int64   `json:"num_retries"`
	RetryDelay      *float64 `json:"retry_delay"`
}

func taskTypeObjects(types []scheduler.TaskType) []taskTypeObject {
	objects := make([]taskTypeObject, len(types))
	for i, t := range types {
		objects[i] = taskTypeObject{
			Type: t.Type, BackendName: t.BackendName, Description: t.Description,
			DefaultInterval: inSeconds(t.DefaultInterval), MinInterval: inSeconds(t.MinInterval), MaxInterval: inSeconds(t.MaxInterval),
			BackoffFactor: t.BackoffFactor, MaxQueueLength: t.MaxQueueLength, NumRetries: t.NumRetries, RetryDelay: inSeconds(t.RetryDelay),
		}
	}
	return objects
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Seconds()
	return &s
}
