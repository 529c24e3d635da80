package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/pytext"
)

// errSilence ends a command whose question nobody answered: exit code 1, and the
// log has said so.
var errSilence = errors.New("no worker replied")

func newCeleryMonitor(a *app) *cobra.Command {
	var workers workerFlags
	cmd := &cobra.Command{
		Use:                   "celery-monitor [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Monitoring of Celery",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	workers.flags(cmd.Flags())

	// ask makes the function of a subcommand that asks workers.
	ask := func(question func(ctx context.Context, c *celery.Control, to celery.Destination) error) func(*cobra.Command, []string) error {
		return a.configured(func(cmd *cobra.Command, _ []string) error {
			control, to, err := workers.control(a, cmd.Parent())
			if err != nil {
				return err
			}
			return question(cmd.Context(), control, to)
		})
	}
	cmd.AddCommand(newPingWorkers(a, ask), newListRunning(a, ask))
	return cmd
}

// questioner makes the function of a subcommand that asks workers.
type questioner func(func(ctx context.Context, c *celery.Control, to celery.Destination) error) func(*cobra.Command, []string) error

func newPingWorkers(a *app, ask questioner) *cobra.Command {
	return &cobra.Command{
		Use:                   "ping-workers [OPTIONS]",
		Short:                 "Check which workers respond to the celery remote control",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
		RunE: ask(func(ctx context.Context, c *celery.Control, to celery.Destination) error {
			replies, err := c.Ping(ctx, to)
			if err != nil {
				return err
			}
			for _, r := range replies {
				a.log.Info("got response", "worker", r.Node, "after", r.After)
			}
			if len(replies) == 0 {
				return errSilence
			}
			return nil
		}),
	}
}

func newListRunning(a *app, ask questioner) *cobra.Command {
	format := "pretty"
	cmd := &cobra.Command{
		Use:                   "list-running [OPTIONS]",
		Short:                 "List running tasks on the lister workers",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().Var(choice{&format, []string{"pretty", "csv", "json"}}, "format", "output format: pretty, csv or json")
	cmd.RunE = ask(func(ctx context.Context, c *celery.Control, to celery.Destination) error {
		active, err := c.Active(ctx, to)
		if err != nil {
			return err
		}
		if len(active) == 0 {
			return errSilence
		}
		var running []runningTask
		now := time.Now()
		for _, worker := range slices.Sorted(maps.Keys(active)) {
			tasks, err := runningTasks(worker, active[worker], now)
			if err != nil {
				return err
			}
			if len(tasks) == 0 {
				a.log.Info("no active tasks", "worker", worker)
			}
			running = append(running, tasks...)
		}
		if format == "csv" {
			return a.print(runningCSV(running))
		}
		if format == "json" {
			return a.printJSON(runningObjects(active, now))
		}
		var b strings.Builder
		for _, t := range running {
			fmt.Fprintf(&b, "%s: %s(%s) [for %fs, pid=%s]\n", t.worker, t.name, strings.Join(t.arguments, ", "), t.duration, t.pid)
		}
		return a.print(b.String())
	})
	return cmd
}

// runningTask is a task that a worker executes, in Python's forms.
type runningTask struct {
	worker, name string
	args, kwargs string   // as a list and a dict
	arguments    []string // as in a call
	duration     float64  // seconds
	pid          string
}

type runningObject struct {
	Worker   string          `json:"worker"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Args     json.RawMessage `json:"args"`
	Kwargs   json.RawMessage `json:"kwargs"`
	Duration *float64        `json:"duration"` // seconds
	PID      *int64          `json:"worker_pid"`
}

// runningObjects are all tasks that workers execute, for JSON.
func runningObjects(active map[string][]celery.TaskInfo, now time.Time) []runningObject {
	objects := []runningObject{}
	for _, worker := range slices.Sorted(maps.Keys(active)) {
		for _, info := range active[worker] {
			o := runningObject{Worker: worker, ID: info.ID, Name: info.Name, Args: info.Args, Kwargs: info.Kwargs, PID: info.WorkerPID}
			if info.TimeStart != nil {
				duration := float64(now.UnixMicro())/1e6 - *info.TimeStart
				o.Duration = &duration
			}
			objects = append(objects, o)
		}
	}
	return objects
}

// runningTasks are a worker's tasks, the longest running first.
func runningTasks(worker string, active []celery.TaskInfo, now time.Time) ([]runningTask, error) {
	started := func(t celery.TaskInfo) float64 {
		if t.TimeStart == nil { // accepted at this moment
			return float64(now.UnixMicro()) / 1e6
		}
		return *t.TimeStart
	}
	slices.SortStableFunc(active, func(x, y celery.TaskInfo) int {
		return cmp.Compare(started(x), started(y))
	})
	var tasks []runningTask
	for _, info := range active {
		t := runningTask{worker: worker, name: info.Name, pid: "None", duration: float64(now.UnixMicro())/1e6 - started(info)}
		if info.WorkerPID != nil {
			t.pid = strconv.FormatInt(*info.WorkerPID, 10)
		}
		var err error
		if t.args, t.kwargs, t.arguments, err = callArguments(info.Args, info.Kwargs); err != nil {
			return nil, fmt.Errorf("worker %s, task %s (%s): %w", worker, info.ID, info.Name, err)
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// callArguments writes a call's arguments as Python does. Workers of older
// Celery versions, and those that are asked so, give them as texts already.
func callArguments(args, kwargs json.RawMessage) (list, dict string, call []string, err error) {
	var text string
	if json.Unmarshal(args, &text) == nil {
		list, call = text, append(call, strings.Trim(text, "()[]"))
	} else {
		var items []json.RawMessage
		if err := json.Unmarshal(args, &items); err != nil {
			return "", "", nil, fmt.Errorf("its arguments are no list: %w", err)
		}
		for _, item := range items {
			repr, err := pytext.Repr(item)
			if err != nil {
				return "", "", nil, err
			}
			call = append(call, repr)
		}
		list = "[" + strings.Join(call, ", ") + "]"
	}
	if json.Unmarshal(kwargs, &text) == nil {
		return list, text, append(call, "**"+text), nil
	}
	if dict, err = pytext.Repr(kwargs); err != nil {
		return "", "", nil, err
	}
	named, err := members(kwargs)
	return list, dict, append(call, named...), err
}

// members writes a JSON object's members as keyword arguments, in their order.
func members(object json.RawMessage) ([]string, error) {
	dec := json.NewDecoder(strings.NewReader(string(object)))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("its keyword arguments are no object")
	}
	var named []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		repr, err := pytext.Repr(value)
		if err != nil {
			return nil, err
		}
		named = append(named, fmt.Sprintf("%s=%s", key, repr))
	}
	return named, nil
}

// runningCSV is the table as Python's csv module writes it.
func runningCSV(tasks []runningTask) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.UseCRLF = true
	_ = w.Write([]string{"worker", "name", "args", "kwargs", "duration", "worker_pid"})
	for _, t := range tasks {
		_ = w.Write([]string{t.worker, t.name, t.args, t.kwargs, pytext.Float(t.duration), t.pid})
	}
	w.Flush() // to memory: nothing fails
	return b.String()
}
