package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newTask(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "task [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Manipulate tasks",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(newTaskAdd(a), newTaskList(a), newTaskListPending(a), newTaskSchedule(a), newTaskScheduleOrigins(a), newTaskRespawn(a), newTaskGraph(a))
	return cmd
}

// formatTask is the peer's picture of a task. Times are in zone, and named
// relative to now.
func (a *app) formatTask(t scheduler.Task, zone *time.Location, now time.Time) (string, error) {
	return a.formatTaskWith(t, zone, now, "")
}

// formatWholeTask has its status and priority too.
func (a *app) formatWholeTask(t scheduler.Task, zone *time.Location, now time.Time) (string, error) {
	return a.formatTaskWith(t, zone, now, fmt.Sprintf("%s%s\n%s%s\n", a.bold("  Status: "), t.Status, a.bold("  Priority: "), t.Priority))
}

// formatTaskWith has more lines before the arguments.
func (a *app) formatTaskWith(t scheduler.Task, zone *time.Location, now time.Time, more string) (string, error) {
	interval := "None"
	if t.CurrentInterval != nil {
		interval = pytext.Timedelta(*t.CurrentInterval)
	}
	next := t.NextRun.In(zone)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d\n", a.bold("Task"), t.ID)
	fmt.Fprintf(&b, "%s%s (%s)\n", a.bold("  Next run: "), pytext.NaturalDate(next, now), pytext.ISOFormat(next))
	fmt.Fprintf(&b, "%s%s\n", a.bold("  Interval: "), interval)
	fmt.Fprintf(&b, "%s%s\n", a.bold("  Type: "), t.Type)
	fmt.Fprintf(&b, "%s%s\n%s", a.bold("  Policy: "), t.Policy, more)
	if err := a.formatArguments(&b, t.Arguments); err != nil {
		return "", fmt.Errorf("task %d: %w", t.ID, err)
	}
	return b.String(), nil
}

// formatArguments writes arguments one a line, keyword arguments by name.
func (a *app) formatArguments(b *strings.Builder, arguments scheduler.TaskArguments) error {
	var args []json.RawMessage
	if err := json.Unmarshal(arguments.Args, &args); err != nil {
		return fmt.Errorf("its arguments are no list: %w", err)
	}
	var kwargs map[string]json.RawMessage
	if err := json.Unmarshal(arguments.Kwargs, &kwargs); err != nil {
		return fmt.Errorf("its keyword arguments are no mapping: %w", err)
	}
	b.WriteString(a.bold("  Args:\n"))
	for _, arg := range args {
		repr, err := pytext.Repr(arg)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "    %s\n", repr)
	}
	b.WriteString(a.bold("  Keyword args:\n"))
	for _, name := range slices.Sorted(maps.Keys(kwargs)) {
		repr, err := pytext.Repr(kwargs[name])
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "    %s: %s\n", a.bold(name), repr)
	}
	return nil
}

// serverZone is the time zone in which the server shows times to the peer, and
// reads those that name none. Our own sessions are in UTC, so it takes one that
// asks for nothing.
func serverZone(ctx context.Context, store *sql.Store) (*time.Location, error) {
	c := store.Pool().Config().ConnConfig.Copy()
	if os.Getenv("PGTZ") == "" {
		delete(c.RuntimeParams, "timezone")
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	zone, err := time.LoadLocation(conn.PgConn().ParameterStatus("TimeZone"))
	if err != nil {
		return time.UTC, nil // one that only the server knows: what psycopg does
	}
	return zone, nil
}
