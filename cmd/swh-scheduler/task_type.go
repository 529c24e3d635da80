package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newTaskType(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "task-type [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Manipulate task types",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(newTaskTypeAdd(a), newTaskTypeList(a))
	return cmd
}

func newTaskTypeList(a *app) *cobra.Command {
	var (
		verbose bool
		types   []string
		names   []string
	)
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

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			all, err := store.TaskTypes(ctx)
			if err != nil {
				return err
			}
			slices.SortFunc(all, func(x, y scheduler.TaskType) int { return strings.Compare(x.Type, y.Type) })
			var b strings.Builder
			b.WriteString("Known task types:\n")
			for _, tt := range all {
				switch {
				case len(types) > 0 && !slices.Contains(types, tt.Type):
				case len(names) > 0 && !slices.Contains(names, tt.BackendName):
				case verbose:
					a.describeTaskType(&b, tt)
				default:
					fmt.Fprintf(&b, "%s:\n  %s\n", tt.Type, tt.Description)
				}
			}
			return a.print(b.String())
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
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			tt := scheduler.TaskType{
				Type: args[0], BackendName: args[1], Description: args[2],
				BackoffFactor: &backoffFactor, MaxQueueLength: &maxQueueLength,
			}
			for name, field := range map[string]**time.Duration{
				"default-interval": &tt.DefaultInterval, "min-interval": &tt.MinInterval, "max-interval": &tt.MaxInterval,
			} {
				var err error
				if *field, err = interval(ctx, cmd, store, flags.Lookup(name)); err != nil {
					return err
				}
			}
			if err := store.CreateTaskType(ctx, tt); err != nil {
				return err
			}
			return a.print("OK\n")
		})
	})
	return cmd
}

// interval has PostgreSQL read the interval of an option; nil if it is empty.
func interval(ctx context.Context, cmd *cobra.Command, store *sql.Store, flag *pflag.Flag) (*time.Duration, error) {
	text := flag.Value.String()
	if text == "" {
		return nil, nil
	}
	var i pgtype.Interval
	err := store.Pool().QueryRow(ctx, "select $1::text::interval", text).Scan(&i)
	const dataException = "22" // class of SQLSTATE: not an interval, or one out of range
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(pg.Code, dataException) {
		return nil, usagef(cmd, "%s", invalid(flag, text, sentencef("'%s' is not an interval.", text)))
	}
	if err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	d := time.Duration(i.Months)*30*day + time.Duration(i.Days)*day + time.Duration(i.Microseconds)*time.Microsecond
	return &d, nil
}
