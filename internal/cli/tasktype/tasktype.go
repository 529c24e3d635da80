// Package tasktype has the commands of task-type.
package tasktype

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task-type [OPTIONS] COMMAND [ARGS]...",
		Short: "Manipulate task types",
	}
	cmd.AddCommand(newTaskTypeAdd(a), newTaskTypeList(a), newTaskTypeRegister(a))
	return cmd
}

func newTaskTypeList(a *command.App) *cobra.Command {
	var verbose bool
	var types, names []string
	output := "text"
	cmd := &cobra.Command{
		Use:   "list [OPTIONS]",
		Short: "List the known task types",
	}
	flags := cmd.Flags()
	flags.BoolVarP(&verbose, "verbose", "v", false, "show all fields")
	flags.StringArrayVarP(&types, "task_type", "t", nil, "list only this `TYPE`; may be repeated")
	flags.StringArrayVarP(&names, "task_name", "n", nil, "list only types with this backend task `NAME`; may be repeated")
	command.OutputFlag(flags, &output)

	cmd.RunE = a.OnScheduler(func(ctx context.Context, _ *cobra.Command, b command.Scheduler, _ []string) error {
		all, err := b.TaskTypes(ctx)
		if err != nil {
			return err
		}
		slices.SortFunc(all, func(x, y model.TaskType) int { return strings.Compare(x.Type, y.Type) })
		all = slices.DeleteFunc(all, func(tt model.TaskType) bool {
			return len(types) > 0 && !slices.Contains(types, tt.Type) || len(names) > 0 && !slices.Contains(names, tt.BackendName)
		})
		var text strings.Builder
		text.WriteString("Known task types:\n")
		for _, tt := range all {
			if verbose {
				describeTaskType(a, &text, tt)
			} else {
				fmt.Fprintf(&text, "%s:\n  %s\n", a.Line(tt.Type), a.Line(tt.Description))
			}
		}
		return a.Show(output, taskTypeObjects(all), text.String())
	})
	return cmd
}

// describeTaskType writes all fields of a task type, as the Python scheduler does.
func describeTaskType(a *command.App, b *strings.Builder, tt model.TaskType) {
	fmt.Fprintf(b, "%s%s\n  %s\n", a.Bold(a.Line(tt.Type)+": "), a.Line(tt.BackendName), a.Line(tt.Description))
	fmt.Fprintf(b, "  interval: %s [%s, %s]\n", pytext.OrNone(tt.DefaultInterval, pytext.Timedelta),
		pytext.OrNone(tt.MinInterval, pytext.Timedelta), pytext.OrNone(tt.MaxInterval, pytext.Timedelta))
	fmt.Fprintf(b, "  backoff_factor: %s\n", pytext.OrNone(tt.BackoffFactor, pytext.Float))
	whole := func(i int64) string { return fmt.Sprint(i) }
	fmt.Fprintf(b, "  max_queue_length: %s\n  num_retries: %s\n", pytext.OrNone(tt.MaxQueueLength, whole), pytext.OrNone(tt.NumRetries, whole))
	fmt.Fprintf(b, "  retry_delay: %s\n\n", pytext.OrNone(tt.RetryDelay, pytext.Timedelta))
}

func newTaskTypeAdd(a *command.App) *cobra.Command {
	var backoffFactor float64
	var maxQueueLength int64
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] TYPE TASK_NAME DESCRIPTION",
		Short: "Create a new task type",
		Long: `Create a new task type. A task type of that name that exists stays unchanged.
Intervals are written as for PostgreSQL, such as "1 day" or "12:30:00".`,
		Args: command.Args("TYPE", "TASK_NAME", "DESCRIPTION"),
	}
	flags := cmd.Flags()
	flags.StringP("default-interval", "i", "90 days", "default `INTERVAL`")
	flags.String("min-interval", "", "minimum `INTERVAL`")
	flags.String("max-interval", "", "maximum `INTERVAL`")
	flags.Float64VarP(&backoffFactor, "backoff-factor", "f", 1, "factor by which an interval is divided or multiplied after a run")
	flags.Int64Var(&maxQueueLength, "max-queue-length", 1000, "maximum length of its queue; 0 for no limit")
	command.Must(flags, "max-queue-length", func() bool { return maxQueueLength >= 0 }, "is negative")

	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		tt := model.TaskType{
			Type: args[0], BackendName: args[1], Description: args[2],
			BackoffFactor: &backoffFactor, MaxQueueLength: &maxQueueLength,
		}
		for name, field := range map[string]**time.Duration{
			"default-interval": &tt.DefaultInterval, "min-interval": &tt.MinInterval, "max-interval": &tt.MaxInterval,
		} {
			var err error
			if *field, err = interval(ctx, cmd, b, flags.Lookup(name)); err != nil {
				return err
			}
		}
		if _, err := b.TaskType(ctx, tt.Type); !errors.Is(err, model.ErrUnknownTaskType) {
			if err != nil {
				return err
			}
			return a.Print(a.Line(tt.Type) + " exists already, and is left unchanged\n")
		}
		if err := b.CreateTaskType(ctx, tt); err != nil {
			return err
		}
		return a.Print("OK\n")
	})
	return cmd
}

func interval(ctx context.Context, cmd *cobra.Command, b command.Scheduler, flag *pflag.Flag) (*time.Duration, error) {
	text := flag.Value.String()
	if text == "" {
		return nil, nil
	}
	d, err := b.Interval(ctx, text)
	if _, ours := errors.AsType[pytext.Sentence](err); ours {
		return nil, command.Usagef(cmd, "%s", command.Invalid(flag, text, err))
	}
	return &d, err
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

func taskTypeObjects(types []model.TaskType) []taskTypeObject {
	objects := make([]taskTypeObject, len(types))
	for i, t := range types {
		objects[i] = taskTypeObject{
			Type: t.Type, BackendName: t.BackendName, Description: t.Description,
			DefaultInterval: command.InSeconds(t.DefaultInterval), MinInterval: command.InSeconds(t.MinInterval), MaxInterval: command.InSeconds(t.MaxInterval),
			BackoffFactor: t.BackoffFactor, MaxQueueLength: t.MaxQueueLength, NumRetries: t.NumRetries, RetryDelay: command.InSeconds(t.RetryDelay),
		}
	}
	return objects
}
