package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newTaskList(a *app) *cobra.Command {
	var (
		ids                    []int64
		types                  []string
		limit                  int
		statuses, priorities   []string
		policy                 string
		before, after          dateTime
		listRuns, listMetadata bool
	)
	output := "text"
	cmd := &cobra.Command{
		Use:                   "list [OPTIONS]",
		Short:                 "List tasks",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.VarP(integers{&ids}, "task-id", "i", "list only the task with this `ID`; may be repeated")
	flags.StringArrayVarP(&types, "task-type", "t", nil, "list only tasks of this `TYPE`; may be repeated")
	flags.IntVarP(&limit, "limit", "l", 0, "most tasks to list (default all)")
	flags.VarP(choices{&statuses, []string{"next_run_not_scheduled", "next_run_scheduled", "completed", "disabled"}}, "status", "s", "list tasks whose status is `STATUS`; may be repeated")
	flags.VarP(choice{&policy, []string{"recurring", "oneshot"}}, "policy", "p", "list tasks whose policy is recurring or oneshot")
	flags.VarP(choices{&priorities, []string{"all", "low", "normal", "high"}}, "priority", "P", "list tasks whose priority is `PRIORITY`; may be repeated")
	flags.VarP(&before, "before", "b", "list tasks that are to run before this `DATE`")
	flags.VarP(&after, "after", "a", "list tasks that are to run after this `DATE`")
	flags.BoolVarP(&listRuns, "list-runs", "r", false, "also list past executions of each task")
	flags.BoolVarP(&listMetadata, "list-runs-metadata", "m", false, "also list past executions of each task, with metadata")
	outputFlag(flags, &output)

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return fmt.Errorf("--limit: %d is negative", limit)
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			f := sql.TaskFilter{IDs: ids, Types: types, Policy: scheduler.TaskPolicy(policy), Limit: limit}
			for _, status := range statuses {
				f.Statuses = append(f.Statuses, scheduler.TaskStatus(status))
			}
			if !slices.Contains(priorities, "all") { // to the peer too, all means with or without
				for _, priority := range priorities {
					f.Priorities = append(f.Priorities, scheduler.TaskPriority(priority))
				}
			}
			if !before.isZero() {
				f.Before = before.in(zone)
			}
			if !after.isZero() {
				f.After = after.in(zone)
			}
			tasks, err := b.SearchTasks(ctx, f)
			if err != nil {
				return err
			}
			list, err := a.taskList(ctx, b, tasks)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(list.objects(listRuns || listMetadata))
			}
			text, err := list.text(a, zone, listRuns || listMetadata)
			if err != nil {
				return err
			}
			return a.print(text)
		})
	})
	return cmd
}

// taskList is some tasks, with their runs. What the peer doesn't know is which
// messages the broker refused: of a task that waits for that, more is said.
type taskList struct {
	tasks  []scheduler.Task
	runs   map[int64][]scheduler.TaskRun // by task
	putOff map[int64]sql.PutOff          // by run
}

func (a *app) taskList(ctx context.Context, b backend, tasks []scheduler.Task) (taskList, error) {
	ids := make([]int64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	runs, err := b.TaskRuns(ctx, ids, 0)
	if err != nil {
		return taskList{}, err
	}
	slices.SortFunc(runs, func(x, y scheduler.TaskRun) int { return int(x.ID - y.ID) })
	list := taskList{tasks: tasks, runs: map[int64][]scheduler.TaskRun{}}
	for _, r := range runs {
		list.runs[r.Task] = append(list.runs[r.Task], r)
	}
	list.putOff, err = a.putOff(ctx, b, runs)
	return list, err
}

// text is the peer's picture of the tasks, and of their runs if withRuns.
func (l taskList) text(a *app, zone *time.Location, withRuns bool) (string, error) {
	now := time.Now()
	lines := []string{fmt.Sprintf("Found %d tasks\n", len(l.tasks))}
	for _, t := range l.tasks {
		text, err := a.formatWholeTask(t, zone, now)
		if err != nil {
			return "", err
		}
		lines = append(lines, text)
		for _, r := range l.runs[t.ID] {
			if p, ok := l.putOff[r.ID]; ok {
				lines = append(lines, fmt.Sprintf("%s%s (tried %d times, again at %s)",
					a.bold("  Not sent: "), p.Reason, p.Attempts, pytext.ISOFormat(p.Again.In(zone))))
			}
		}
		if withRuns && len(l.runs[t.ID]) > 0 {
			lines = append(lines, a.bold("  Executions:"))
			for _, r := range l.runs[t.ID] {
				lines = append(lines, formatRun(r, zone)...)
			}
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// objects are the tasks for JSON, with their runs if withRuns.
func (l taskList) objects(withRuns bool) []taskObject {
	objects := taskObjects(l.tasks)
	for i, t := range l.tasks {
		for _, r := range l.runs[t.ID] {
			if p, ok := l.putOff[r.ID]; ok {
				objects[i].NotSent = append(objects[i].NotSent, notSentObject(p))
			}
			if withRuns {
				objects[i].Runs = append(objects[i].Runs, runObject{r.BackendID, r.Status, r.Scheduled, r.Started, r.Ended, r.Metadata})
			}
		}
	}
	return objects
}

// putOff finds the messages that were refused, where our own tables are there.
func (a *app) putOff(ctx context.Context, b backend, runs []scheduler.TaskRun) (map[int64]sql.PutOff, error) {
	store, ok := b.(database)
	if !ok || len(runs) == 0 || store.CheckVersion(ctx) != nil {
		return nil, nil
	}
	return store.PutOffMessages(ctx, runs)
}

// formatRun is the peer's picture of a run.
func formatRun(r scheduler.TaskRun, zone *time.Location) []string {
	date := func(t *time.Time) string {
		if t == nil {
			return "None"
		}
		return pytext.ISOFormat(t.In(zone))
	}
	id := "None"
	if r.BackendID != nil {
		id = *r.BackendID
	}
	lines := []string{
		fmt.Sprintf("    %s [%s]", id, r.Status),
		"      scheduled: " + date(r.Scheduled),
		"      started: " + date(r.Started),
		"      ended: " + date(r.Ended),
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(r.Metadata, &metadata) == nil && len(metadata) > 0 {
		lines = append(lines, "      metadata:", indentedJSON(r.Metadata, strings.Repeat(" ", 8)))
	}
	return lines
}

// indentedJSON is textwrap.indent(json.dumps(value, indent=4), prefix).
func indentedJSON(value json.RawMessage, prefix string) string {
	var b bytes.Buffer
	if json.Indent(&b, value, prefix, "    ") != nil {
		return prefix + string(value)
	}
	var ascii strings.Builder
	ascii.WriteString(prefix)
	for _, r := range b.String() {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return ascii.String()
}
