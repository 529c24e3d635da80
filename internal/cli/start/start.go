// Package start has the commands that run daemons.
package start

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/journal"
)

// options returns the options of a daemon that runs as cmd. It drops all other commands, which would take memory as
// long as the daemon runs.
func options(a *command.App, cmd *cobra.Command) process.Options {
	root := cmd.Root()
	for _, other := range root.Commands() {
		if other != cmd {
			root.RemoveCommand(other)
		}
	}
	return a.Daemon(cmd)
}

func NewRunner(a *command.App) *cobra.Command {
	var types, patterns []string
	var priority bool
	var lost time.Duration
	var before command.Date
	cmd := &cobra.Command{
		Use:   "start-runner [OPTIONS]",
		Short: "Starts a swh-scheduler runner instance",
		Long: `Starts a swh-scheduler runner instance: it sends the tasks that are ready to run.

The options limit the task types by name, by pattern or both. Without them, it serves
all task types.`,
	}
	flags := cmd.Flags()
	period := periodFlag(flags, "ready tasks")
	flags.StringArrayVar(&types, "task-type", nil, "task `TYPE` to schedule; all if not given")
	flags.StringArrayVar(&patterns, "task-type-pattern", nil, "`PATTERN` that the names of task types to schedule begin with; all if not given")
	command.Pair(flags, &priority, command.WithPriority, "", "without-priority",
		"schedule the tasks that have a priority, instead of those that have none", "schedule the tasks that have no priority (default)")
	flags.Var(command.Duration(&lost), "lost-after", "give up runs without events for `DURATION` (such as 36h), unless the configuration's lost_after sets another one; needs a period, and --without-priority")
	flags.Var(&before, "lost-before", "give up also runs that another scheduler sent before `DATE`; without it, only those that were sent since this program sends; needs what --lost-after needs")
	command.PythonName(flags, "task-type", "task_type_names")
	command.PythonName(flags, "task-type-pattern", "task_type_patterns")

	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		d := daemons.Runner{
			Options: options(a, cmd), Period: period(), TaskTypes: types, TaskTypePatterns: patterns, WithPriority: priority, LostAfter: lost,
			LostBefore: before.Or(time.Time{}),
		}
		if (d.LostAfter > 0 || !d.LostBefore.IsZero()) && (d.WithPriority || d.Period == 0) {
			a.Log.Warn("--lost-after and --lost-before have no effect here: a start-runner with a period and without --with-priority gives up the runs of all tasks")
		}
		return command.UnknownTaskType(cmd, d.Run(cmd.Context()), "Unknown %s")
	})
	return cmd
}

func NewFirstVisits(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start-runner-first-visits [OPTIONS]",
		Short: "Starts a swh-scheduler runner service for first visits",
		Long: `Starts a swh-scheduler runner service for first visits: it sends the visits of newly
listed origins to the queues for first visits of their lister, if it has any.`,
	}
	period := periodFlag(cmd.Flags(), "first visits")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		d := daemons.FirstVisits{Options: options(a, cmd), Period: period()}
		return d.Run(cmd.Context())
	})
	return cmd
}

func NewListener(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:   "start-listener [OPTIONS]",
		Short: "Starts a swh-scheduler listener service",
		Long:  "Starts a swh-scheduler listener service: it reads Celery's events and records the\nprogress of tasks in the database.",
		RunE: a.Configured(func(cmd *cobra.Command, _ []string) error {
			d := daemons.Listener{Options: options(a, cmd)}
			return d.Run(cmd.Context())
		}),
	}
}

func NewRecurrent(a *command.App) *cobra.Command {
	var visitTypes []string
	cmd := &cobra.Command{
		Use:   "schedule-recurrent [OPTIONS]",
		Short: "Starts the scheduler for recurrent visits",
		Long: `Starts the scheduler for recurrent visits: a loop for each visit type sends due
visits to Celery.`,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&visitTypes, "visit-type", nil, "visit `TYPE` to schedule; those of all task types load-* if not given")
	command.PythonName(flags, "visit-type", "visit_types")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		d := daemons.Recurrent{Options: options(a, cmd), VisitTypes: visitTypes}
		return command.UnknownTaskType(cmd, d.Run(cmd.Context()), "Unknown task type: %s")
	})
	return cmd
}

func NewRPCServe(a *command.App) *cobra.Command {
	var host string
	var port uint16
	cmd := &cobra.Command{
		Use:   "rpc-serve [OPTIONS]",
		Short: "Starts a swh-scheduler API HTTP server",
		Long: `Starts a swh-scheduler API HTTP server, through which listers, the web API and
other components use the scheduler. The rpc_serve section of the configuration
can require TLS and credentials, and limit the calls of each client. The server
reads that section again when the file changes.`,
	}
	flags := cmd.Flags()
	flags.StringVar(&host, "host", "0.0.0.0", "`HOST` to listen on; 0.0.0.0 is all network interfaces")
	flags.Uint16Var(&port, "port", 5008, "`PORT` to listen on; 0 takes a free one")
	poolConns := flags.Int("pool-conns", 0, "most connections to the database, where the configuration sets no scheduler.max_pool_conns; 10 if 0")
	command.Must(flags, "pool-conns", func() bool { return *poolConns >= 0 }, "is negative")
	var debug bool
	command.Pair(flags, &debug, "debug", "", "nodebug", "log at level debug, with a line for each call", "log no calls (default, unless --log-level is debug)")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		if _, err := a.DSN(cmd); err != nil { // the server needs a database of its own
			return err
		}
		if a.Config.Scheduler.MaxPoolConns == 0 {
			a.Config.Scheduler.MaxPoolConns = *poolConns
		}
		if !cmd.Flags().Changed("debug") {
			debug = a.Level.Level() <= slog.LevelDebug
		}
		if debug {
			a.Level.Set(slog.LevelDebug)
		}
		d := daemons.RPC{Options: options(a, cmd), Address: net.JoinHostPort(host, strconv.Itoa(int(port))), LogCalls: debug, Reread: a.Reread(cmd)}
		if a.Config.Dashboard.InRPCServe {
			var asks atomic.Bool // set while calls need credentials
			asks.Store(a.Config.RPCServe.RequiresCredentials())
			reread := d.Reread
			d.Reread = func() (*config.Config, error) {
				now, err := reread()
				if err == nil && now != nil && now.RPCServe.RequiresCredentials() {
					asks.Store(true)
				}
				return now, err
			}
			d.NewSite = newSite(a, cmd, rpc.SitePath, asks.Load)
		}
		return d.Run(cmd.Context())
	})
	return cmd
}

// periodFlag adds the option --period and returns a function that returns its value.
func periodFlag(flags *pflag.FlagSet, what string) (period func() time.Duration) {
	seconds := flags.IntP("period", "p", 0, "period (in s) at which "+what+" are looked for; 0 looks once and ends")
	command.Must(flags, "period", func() bool { return *seconds >= 0 }, "is negative")
	return func() time.Duration { return time.Duration(*seconds) * time.Second }
}

func NewJournal(a *command.App) *cobra.Command {
	var stopAfterObjects int64
	var failIfMissing bool
	cmd := &cobra.Command{
		Use:   "journal-client [OPTIONS]",
		Short: "Keeps the origin visits stats up to date from a Kafka journal",
		Long: `Keeps the origin visits stats up to date from a Kafka journal: it reads the outcomes
of visits and records them for the scheduler.`,
	}
	cmd.Flags().Int64VarP(&stopAfterObjects, "stop-after-objects", "m", 0, "maximum number of records to read; 0 for no limit")
	command.Must(cmd.Flags(), "stop-after-objects", func() bool { return stopAfterObjects >= 0 }, "is negative")
	cmd.Flags().BoolVar(&failIfMissing, "fail-if-missing", false, "fail if the topic is not there, instead of waiting for it")

	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		c := a.Config.Journal
		switch {
		case len(c.Brokers) == 0:
			return a.Config.Missing("journal.brokers", "the addresses (host:port) of Kafka brokers")
		case c.GroupID == "":
			return a.Config.Missing("journal.group_id", "the name of a Kafka consumer group")
		case stopAfterObjects == 0:
			stopAfterObjects = int64(c.StopAfterObjects)
		}
		var bar *command.Bar
		d := daemons.Journal{
			Options: options(a, cmd), StopAfterObjects: stopAfterObjects, FailIfMissing: failIfMissing,
			Progress: func(processed, remaining int64) { bar.Set(processed, boundOf(stopAfterObjects, processed+remaining)) },
			Read: func(ctx context.Context, client *journal.Client) error {
				if stopAfterObjects > 0 || c.OnEOF == string(journal.EOFStop) {
					bar = a.Progress("records", 0)
				}
				processed, err := client.Run(ctx)
				bar.Stop()
				if err != nil || ctx.Err() != nil {
					return err
				}
				return a.Print(fmt.Sprintf("Processed %d message(s).\nDone.\n", processed))
			},
		}
		return d.Run(cmd.Context())
	})
	return cmd
}

// boundOf returns the expected number of records of a run.
func boundOf(stopAfter, known int64) int64 {
	if stopAfter > 0 {
		return min(stopAfter, known)
	}
	return known
}
