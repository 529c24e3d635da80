package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
)

func newTaskGraph(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "graph [OPTIONS] COMMAND [ARGS]...",
		Short: "Manipulate graphs: tasks that depend on each other",
		Long: `Manipulate graphs: tasks that depend on each other. start-runner releases a task when
its dependencies have ended.`,
	}
	cmd.AddCommand(newGraphSubmit(a), newGraphExtend(a), newGraphList(a), newGraphStatus(a), newGraphShow(a),
		newGraphCancel(a), newGraphRetry(a), newGraphRelease(a))
	return cmd
}

// graphCommand makes a command of task graph with arguments of these names, which prints
// text or JSON.
func graphCommand(a *command.App, use, short, long string, names []string,
	do func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) (result any, text string, err error),
) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: command.Args(names...)}
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		if database, ok := b.(command.Database); ok {
			if err := database.CheckVersion(ctx); err != nil {
				return err
			}
		}
		result, text, err := do(ctx, cmd, b, args)
		if err != nil {
			return err
		}
		return a.Show(output, result, text)
	})
	return cmd
}

func number(cmd *cobra.Command, name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, command.Usagef(cmd, "Invalid value for '%s': '%s' is not the number of a %s.", name, text, strings.ToLower(name))
	}
	return n, nil
}

func newGraphSubmit(a *command.App) *cobra.Command {
	var dryRun bool
	cmd := graphCommand(a, "submit [OPTIONS] FILE", "Submit a graph of tasks",
		`Submit the graph of tasks that FILE describes in YAML or JSON (- is standard input).
If the file has an error, nothing is submitted.`,
		[]string{"FILE"},
		func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) (any, string, error) {
			text, err := command.ReadInput(cmd, "FILE", args[0])
			if err != nil {
				return nil, "", err
			}
			if dryRun {
				size, err := b.CheckGraph(ctx, text)
				if err != nil {
					return nil, "", fmt.Errorf("%s: %w", args[0], err)
				}
				return size, fmt.Sprintf("Nothing is wrong with this graph: %s\n", size), nil
			}
			submitted, err := b.SubmitGraph(ctx, text)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", args[0], err)
			}
			if submitted.Known {
				return submitted, fmt.Sprintf("It was submitted before, with this key, as graph %d\n", submitted.Graph), nil
			}
			return submitted, fmt.Sprintf("Submitted graph %d: %s\n", submitted.Graph, submitted.Size), nil
		})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check the graph and print its size")
	return cmd
}

func newGraphExtend(a *command.App) *cobra.Command {
	return graphCommand(a, "extend [OPTIONS] GRAPH FILE", "Add tasks and dependencies to a graph, or remove dependencies",
		`Add tasks and dependencies to a graph, or remove dependencies, as FILE describes in YAML
or JSON (- is standard input). If the file has an error, nothing is changed.`,
		[]string{"GRAPH", "FILE"},
		func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) (any, string, error) {
			graph, err := number(cmd, "GRAPH", args[0])
			if err != nil {
				return nil, "", err
			}
			text, err := command.ReadInput(cmd, "FILE", args[1])
			if err != nil {
				return nil, "", err
			}
			extended, err := b.ExtendGraph(ctx, graph, text)
			switch {
			case errors.Is(err, model.ErrUnknownGraph):
				return nil, "", noSuchGraph(graph, err)
			case err != nil:
				return nil, "", fmt.Errorf("%s: %w", args[1], err)
			case extended.Known:
				return extended, fmt.Sprintf("Graph %d was extended by this before, with this key\n", graph), nil
			}
			return extended, fmt.Sprintf("Extended graph %d: %s\n", graph, extended.Size), nil
		})
}

func newGraphList(a *command.App) *cobra.Command {
	limit := 20
	cmd := graphCommand(a, "list [OPTIONS]", "List graphs, newest first", "", nil,
		func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, _ []string) (any, string, error) {
			graphs, err := b.Graphs(ctx, limit)
			if err != nil {
				return nil, "", err
			}
			now := time.Now()
			text := fmt.Sprintf("Found %s\n", model.Count(len(graphs), "graph", "graphs"))
			for _, g := range graphs {
				text += g.Text(now, a.Bold)
			}
			return graphs, text, nil
		})
	cmd.Flags().IntVarP(&limit, "limit", "l", limit, "most graphs to list")
	command.Must(cmd.Flags(), "limit", func() bool { return limit > 0 }, "is not positive")
	return cmd
}

func newGraphStatus(a *command.App) *cobra.Command {
	return graphCommand(a, "status [OPTIONS] GRAPH", "Show the progress of a graph",
		`Show the progress of a graph: the number of its tasks in each state, the tasks that it
waits for now, the longest chain of tasks left, and the expected end.`,
		[]string{"GRAPH"},
		func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) (any, string, error) {
			graph, err := number(cmd, "GRAPH", args[0])
			if err != nil {
				return nil, "", err
			}
			report, err := b.GraphReport(ctx, graph)
			if err != nil {
				return nil, "", noSuchGraph(graph, err)
			}
			return report, report.Text(time.Now(), a.Bold), nil
		})
}

func noSuchGraph(graph int64, err error) error {
	if errors.Is(err, model.ErrUnknownGraph) {
		return fmt.Errorf("there is no graph %d", graph)
	}
	return err
}

func newGraphShow(a *command.App) *cobra.Command {
	var svg bool
	cmd := &cobra.Command{
		Use:   "show [OPTIONS] GRAPH",
		Short: "Draw a graph",
		Long: `Draw a graph in the language of Graphviz or as an SVG picture. In a large graph, a
box stands for all tasks of a type at one level.`,
		Args: command.Args("GRAPH"),
	}
	cmd.Flags().Bool("dot", false, "print the graph in the language of Graphviz (default)")
	cmd.Flags().BoolVar(&svg, "svg", false, "print a picture of the graph in SVG")
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		if err := command.Exclusive(cmd, "dot", "svg"); err != nil {
			return err
		}
		graph, err := number(cmd, "GRAPH", args[0])
		if err != nil {
			return err
		}
		format := "dot"
		if svg {
			format = "svg"
		}
		picture, err := b.DrawGraph(ctx, graph, format)
		if err != nil {
			return noSuchGraph(graph, err)
		}
		return a.Print(picture)
	})
	return cmd
}

func newGraphCancel(a *command.App) *cobra.Command {
	var workers command.WorkerFlags
	var revoke command.RevokeFlags
	var cmd *cobra.Command
	cmd = changeCommand(a, "cancel [OPTIONS] GRAPH", "Cancel a graph",
		`Cancel all unsent tasks of a graph. Sent ones are not retried if they fail.

With --terminate, workers also drop the tasks that were sent. WARNING: the processes
that run these tasks are killed. By the time the signal arrives, a process may have begun
another task, which is then killed instead.`,
		"Cancelled graph", func(ctx context.Context, b command.Scheduler, graph int64) error {
			if err := b.CancelGraph(ctx, graph); err != nil || !revoke.Terminate() {
				return err
			}
			tasks, err := b.RunningGraphTasks(ctx, graph)
			if err != nil {
				return err
			}
			messages, err := messagesOf(ctx, b, tasks)
			if err != nil || len(messages) == 0 {
				return err
			}
			return revokeMessages(ctx, a, cmd, &workers, &revoke, messages)
		})
	workers.Flags(cmd.Flags())
	revoke.Flags(cmd.Flags())
	return cmd
}

func newGraphRetry(a *command.App) *cobra.Command {
	return changeCommand(a, "retry [OPTIONS] GRAPH", "Retry the failed tasks of a graph",
		`Retry the tasks of a graph that have failed for good, were cancelled, or waited
longer than their deadline. Tasks that could not run because of these are retried too.`,
		"Retried graph", func(ctx context.Context, b command.Scheduler, graph int64) error { return b.RetryGraph(ctx, graph) })
}

// changeCommand makes a command that changes a graph, and then describes it.
func changeCommand(a *command.App, use, short, long, done string, change func(ctx context.Context, b command.Scheduler, graph int64) error) *cobra.Command {
	return graphCommand(a, use, short, long, []string{"GRAPH"},
		func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) (any, string, error) {
			graph, err := number(cmd, "GRAPH", args[0])
			if err == nil {
				err = noSuchGraph(graph, change(ctx, b, graph))
			}
			if err != nil {
				return nil, "", err
			}
			g, err := b.Graph(ctx, graph)
			return g, fmt.Sprintf("%s %d: %s\n", done, graph, g.Counts()), err
		})
}

func newGraphRelease(a *command.App) *cobra.Command {
	var force bool
	cmd := graphCommand(a, "release [OPTIONS] TASK", "Release a task that waits for itself",
		`Release a task that depends on itself, once all its other dependencies have ended.
With --force, release a task whatever it depends on.`,
		[]string{"TASK"},
		func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) (any, string, error) {
			task, err := number(cmd, "TASK", args[0])
			if err != nil {
				return nil, "", err
			}
			released, err := b.ReleaseTask(ctx, task, force)
			if err != nil {
				return nil, "", err
			}
			return released, fmt.Sprintf("Released task %d (%s of graph %d)\n", task, released.Name, released.Graph), nil
		})
	cmd.Flags().BoolVar(&force, "force", false, "release it although it waits for other tasks")
	return cmd
}
