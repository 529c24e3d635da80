package task

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

// formatTask formats a task as the Python scheduler does, with more lines before the
// arguments. Dates are in zone, and named relative to now.
func formatTask(a *command.App, t model.Task, now time.Time, more string) (string, error) {
	next := t.NextRun.UTC()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d\n", a.Bold("Task"), t.ID)
	fmt.Fprintf(&b, "%s%s (%s)\n", a.Bold("  Next run: "), pytext.NaturalDate(next, now), pytext.ISOFormat(next))
	fmt.Fprintf(&b, "%s%s\n", a.Bold("  Interval: "), pytext.OrNone(t.CurrentInterval, pytext.Timedelta))
	fmt.Fprintf(&b, "%s%s\n", a.Bold("  Type: "), a.Line(t.Type))
	fmt.Fprintf(&b, "%s%s\n%s", a.Bold("  Policy: "), t.Policy, more)
	if err := formatArguments(a, &b, t.Arguments); err != nil {
		return "", fmt.Errorf("task %d: %w", t.ID, err)
	}
	return b.String(), nil
}

// formatArguments writes an argument on each line, keyword arguments sorted by name.
func formatArguments(a *command.App, b *strings.Builder, arguments model.TaskArguments) error {
	var args []json.RawMessage
	if err := json.Unmarshal(arguments.Args, &args); err != nil {
		return fmt.Errorf("its arguments are no list: %w", err)
	}
	var kwargs map[string]json.RawMessage
	if err := json.Unmarshal(arguments.Kwargs, &kwargs); err != nil {
		return fmt.Errorf("its keyword arguments are no mapping: %w", err)
	}
	b.WriteString(a.Bold("  Args:\n"))
	for _, arg := range args {
		repr, err := pytext.Repr(arg)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "    %s\n", repr)
	}
	b.WriteString(a.Bold("  Keyword args:\n"))
	for _, name := range slices.Sorted(maps.Keys(kwargs)) {
		repr, err := pytext.Repr(kwargs[name])
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "    %s: %s\n", a.Bold(a.Line(name)), repr)
	}
	return nil
}

// formatRun formats a run as the Python scheduler does.
func formatRun(a *command.App, r model.TaskRun) []string {
	date := func(t *time.Time) string {
		return pytext.OrNone(t, func(t time.Time) string { return pytext.ISOFormat(t.UTC()) })
	}
	lines := []string{
		fmt.Sprintf("    %s [%s]", pytext.OrNone(r.BackendID, a.Line), r.Status),
		"      scheduled: " + date(r.Scheduled),
		"      started: " + date(r.Started),
		"      ended: " + date(r.Ended),
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(r.Metadata, &metadata) == nil && len(metadata) > 0 {
		lines = append(lines, "      metadata:", pytext.IndentedJSON(r.Metadata, strings.Repeat(" ", 8)))
	}
	return lines
}

func PrintCreated(ctx context.Context, a *command.App, b command.Scheduler, created []model.Task, output string) error {
	if output == "json" {
		return a.PrintJSON(taskObjects(created))
	}
	parts := []string{fmt.Sprintf("Created %d tasks\n", len(created))}
	now := time.Now()
	for _, task := range created {
		text, err := formatTask(a, task, now, "")
		if err != nil {
			return err
		}
		parts = append(parts, text)
	}
	return a.Print(strings.Join(parts, "\n") + "\n")
}

type taskObject struct {
	ID              int64              `json:"id"`
	Type            string             `json:"type"`
	Arguments       argumentsObject    `json:"arguments"`
	NextRun         time.Time          `json:"next_run"`
	CurrentInterval *float64           `json:"current_interval"`
	Status          model.TaskStatus   `json:"status"`
	Policy          model.TaskPolicy   `json:"policy"`
	RetriesLeft     int64              `json:"retries_left"`
	Priority        model.TaskPriority `json:"priority,omitempty"`
	NotSent         []notSentObject    `json:"not_sent,omitempty"`
	Runs            []runObject        `json:"runs,omitempty"`
}

type argumentsObject struct {
	Args   json.RawMessage `json:"args"`
	Kwargs json.RawMessage `json:"kwargs"`
}

// notSentObject is a message that the broker refused.
type notSentObject struct {
	Attempts int32     `json:"attempts"`
	Reason   string    `json:"reason"`
	NextTry  time.Time `json:"next_try"`
}

type runObject struct {
	BackendID *string         `json:"backend_id"`
	Status    model.RunStatus `json:"status"`
	Scheduled *time.Time      `json:"scheduled"`
	Started   *time.Time      `json:"started"`
	Ended     *time.Time      `json:"ended"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

func taskObjects(tasks []model.Task) []taskObject {
	objects := make([]taskObject, len(tasks))
	for i, t := range tasks {
		objects[i] = taskObject{
			ID: t.ID, Type: t.Type, Arguments: argumentsObject(t.Arguments), NextRun: t.NextRun.UTC(),
			CurrentInterval: command.InSeconds(t.CurrentInterval), Status: t.Status, Policy: t.Policy,
			RetriesLeft: t.RetriesLeft, Priority: t.Priority,
		}
	}
	return objects
}
