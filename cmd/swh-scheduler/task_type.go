package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
)

func newTaskType(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "task-type [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Manipulate task types",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(newTaskTypeAdd(a), newTaskTypeList(a), newTaskTypeRegister(a))
	return cmd
}

func newTaskTypeList(a *app) *cobra.Command {
	var (
		verbose bool
		types   []string
		names   []string
	)
	output := "text"
	cmd := &cobra.Command{
		Use:                   "list [OPTIONS]",
		Short:                 "List the known task types",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&verbose, "verbose", "v", false, "show all that is known of them")
	flags.StringArrayVarP(&types, "task_type", "t", nil, "list only this `TYPE`; may be repeated")
	flags.StringArrayVarP(&names, "task_name", "n", nil, "list only types with this backend task `NAME`; may be repeated")
	outputFlag(flags, &output)

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			all, err := b.TaskTypes(ctx)
			if err != nil {
				return err
			}
			slices.SortFunc(all, func(x, y scheduler.TaskType) int { return strings.Compare(x.Type, y.Type) })
			all = slices.DeleteFunc(all, func(tt scheduler.TaskType) bool {
				return len(types) > 0 && !slices.Contains(types, tt.Type) || len(names) > 0 && !slices.Contains(names, tt.BackendName)
			})
			if output == "json" {
				return a.printJSON(taskTypeObjects(all))
			}
			var text strings.Builder
			text.WriteString("Known task types:\n")
			for _, tt := range all {
				if verbose {
					a.describeTaskType(&text, tt)
				} else {
					fmt.Fprintf(&text, "%s:\n  %s\n", tt.Type, tt.Description)
				}
			}
			return a.print(text.String())
		})
	})
	return cmd
}

// describeTaskType is the peer's picture of all that is known of a task type.
func (a *app) describeTaskType(b *strings.Builder, tt scheduler.TaskType) {
	fmt.Fprintf(b, "%s%s\n  %s\n", a.bold(tt.Type+": "), tt.BackendName, tt.Description)
	fmt.Fprintf(b, "  interval: %s [%s, %s]\n", orNone(tt.DefaultInterval, pytext.Timedelta),
		orNone(tt.MinInterval, pytext.Timedelta), orNone(tt.MaxInterval, pytext.Timedelta))
	fmt.Fprintf(b, "  backoff_factor: %s\n", orNone(tt.BackoffFactor, pytext.Float))
	whole := func(i int64) string { return strconv.FormatInt(i, 10) }
	fmt.Fprintf(b, "  max_queue_length: %s\n  num_retries: %s\n", orNone(tt.MaxQueueLength, whole), orNone(tt.NumRetries, whole))
	fmt.Fprintf(b, "  retry_delay: %s\n\n", orNone(tt.RetryDelay, pytext.Timedelta))
}

func orNone[T any](value *T, text func(T) string) string {
	if value == nil {
		return "None"
	}
	return text(*value)
}

// defaultMaxQueueLength is the peer's.
const defaultMaxQueueLength = 1000

func newTaskTypeAdd(a *app) *cobra.Command {
	var (
		defaultInterval, minInterval, maxInterval string
		backoffFactor                             float64
		maxQueueLength                            int64
	)
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] TYPE TASK_NAME DESCRIPTION",
		Short: "Create a new task type",
		Long: `Create a new task type; one of that name that is there already stays as it is.
Intervals are written as PostgreSQL reads them, such as "1 day" or "12:30:00".`,
		Args:                  arguments(false, false, "TYPE", "TASK_NAME", "DESCRIPTION"),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.StringVarP(&defaultInterval, "default-interval", "i", "90 days", "default `INTERVAL`")
	flags.StringVar(&minInterval, "min-interval", "", "minimum `INTERVAL`")
	flags.StringVar(&maxInterval, "max-interval", "", "maximum `INTERVAL`")
	flags.Float64VarP(&backoffFactor, "backoff-factor", "f", 1, "what an interval is divided by, or multiplied with, after a run")
	flags.Int64Var(&maxQueueLength, "max-queue-length", defaultMaxQueueLength, "how many of its messages may wait in the queue; 0 for no limit")

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		if maxQueueLength < 0 {
			return usagef(cmd, "Invalid value for '--max-queue-length': %d is negative.", maxQueueLength)
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			tt := scheduler.TaskType{
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
			if err := b.CreateTaskType(ctx, tt); err != nil {
				return err
			}
			return a.print("OK\n")
		})
	})
	return cmd
}

// interval reads the interval of an option; nil if it is empty.
func interval(ctx context.Context, cmd *cobra.Command, b backend, flag *pflag.Flag) (*time.Duration, error) {
	text := flag.Value.String()
	if text == "" {
		return nil, nil
	}
	d, err := b.Interval(ctx, text)
	if _, ours := errors.AsType[sentence](err); ours {
		return nil, usagef(cmd, "%s", invalid(flag, text, err))
	}
	return &d, err
}
