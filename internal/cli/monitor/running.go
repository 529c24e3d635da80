package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/pytext"
)

func newListRunning(a *command.App, ask questioner) *cobra.Command {
	format := "pretty"
	cmd := &cobra.Command{
		Use:   "list-running [OPTIONS]",
		Short: "List running tasks on the lister workers",
	}
	cmd.Flags().Var(command.Choice(&format, "pretty", "csv", "json"), "format", "output format: pretty, csv or json")
	cmd.RunE = ask(func(ctx context.Context, c *celery.Control, to celery.Destination, _ []string) error {
		active, err := c.Active(ctx, to)
		if len(active) == 0 {
			return cmp.Or(err, command.ErrNoReply)
		}
		var running []runningTask
		now := time.Now()
		for _, worker := range slices.Sorted(maps.Keys(active)) {
			tasks, readErr := runningTasks(worker, active[worker], now)
			if readErr != nil {
				err = errors.Join(err, readErr)
				continue
			}
			if len(tasks) == 0 {
				a.Log.Info("no active tasks", "worker", worker)
			}
			running = append(running, tasks...)
		}
		var b strings.Builder
		switch format {
		case "json":
			return errors.Join(a.PrintJSON(runningObjects(active, now)), err)
		case "csv":
			row := func(fields ...string) { b.WriteString(pytext.CSVRow(a.Lines(fields)) + "\r\n") }
			row("worker", "name", "args", "kwargs", "duration", "worker_pid")
			for _, t := range running {
				row(t.worker, t.name, t.args, t.kwargs, pytext.Float(t.duration), t.pid)
			}
		default:
			for _, t := range running {
				fmt.Fprintf(&b, "%s: %s(%s) [for %fs, pid=%s]\n", a.Line(t.worker), a.Line(t.name), a.Line(strings.Join(t.arguments, ", ")), t.duration, t.pid)
			}
		}
		return errors.Join(a.Print(b.String()), err)
	})
	return cmd
}

// runningTask is a task that a worker runs, as Python prints it.
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

// runningObjects returns all tasks that workers run, for JSON.
func runningObjects(active map[string][]celery.TaskInfo, now time.Time) []runningObject {
	objects := []runningObject{}
	for _, worker := range slices.Sorted(maps.Keys(active)) {
		for _, info := range active[worker] {
			o := runningObject{Worker: worker, ID: info.ID, Name: info.Name, Args: info.Args, Kwargs: info.Kwargs, PID: info.WorkerPID}
			if info.TimeStart != nil {
				o.Duration = new(float64(now.UnixMicro())/1e6 - *info.TimeStart)
			}
			objects = append(objects, o)
		}
	}
	return objects
}

// runningTasks returns a worker's tasks, the longest running first.
func runningTasks(worker string, active []celery.TaskInfo, now time.Time) ([]runningTask, error) {
	started := func(t celery.TaskInfo) float64 {
		if t.TimeStart == nil { // accepted a moment ago
			return float64(now.UnixMicro()) / 1e6
		}
		return *t.TimeStart
	}
	slices.SortStableFunc(active, func(x, y celery.TaskInfo) int {
		return cmp.Compare(started(x), started(y))
	})
	var tasks []runningTask
	for _, info := range active {
		pid := pytext.OrNone(info.WorkerPID, func(pid int64) string { return fmt.Sprint(pid) })
		t := runningTask{worker: worker, name: info.Name, pid: pid, duration: float64(now.UnixMicro())/1e6 - started(info)}
		var err error
		if t.args, t.kwargs, t.arguments, err = pytext.Call(info.Args, info.Kwargs); err != nil {
			return nil, fmt.Errorf("worker %s, task %s (%s): %w", worker, info.ID, info.Name, err)
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
