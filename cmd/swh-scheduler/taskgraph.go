package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/taskgraph"
	"swh-scheduler/sql"
)

func newTaskGraph(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "graph [OPTIONS] COMMAND [ARGS]...",
		Short: "Manipulate graphs of tasks, which wait for each other",
		Long: `Manipulate graphs of tasks, which wait for each other. start-runner releases a
task when what it depends on has ended.`,
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(newGraphSubmit(a), newGraphList(a), newGraphStatus(a), newGraphShow(a),
		newGraphCancel(a), newGraphRetry(a), newGraphRelease(a))
	return cmd
}

// graphCommand is a command of task graph that takes arguments of these names,
// and prints text, or JSON if that is asked for.
func (a *app) graphCommand(use, short, long string, names []string,
	do func(ctx context.Context, cmd *cobra.Command, store *sql.Store, args []string) (result any, text string, err error),
) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args:                  arguments(false, false, names...),
		DisableFlagsInUseLine: true,
	}
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			result, text, err := do(ctx, cmd, store, args)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(result)
			}
			return a.print(text)
		})
	})
	return cmd
}

// number reads an argument that is the number of a graph or a task.
func number(cmd *cobra.Command, name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, usagef(cmd, "Invalid value for '%s': '%s' is not the number of a %s.", name, text, map[string]string{"GRAPH": "graph", "TASK": "task"}[name])
	}
	return n, nil
}

func newGraphSubmit(a *app) *cobra.Command {
	var dryRun bool
	cmd := a.graphCommand("submit [OPTIONS] FILE", "Submit a graph of tasks",
		`Submit the graph of tasks that FILE describes in YAML or JSON (- is standard
input): all of it, or nothing if there is anything wrong with it.`,
		[]string{"FILE"},
		func(ctx context.Context, cmd *cobra.Command, store *sql.Store, args []string) (any, string, error) {
			text, err := readInput(cmd, "FILE", args[0])
			if err != nil {
				return nil, "", err
			}
			now := time.Now()
			g, err := taskgraph.Parse(text, now)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", args[0], err)
			}
			size := graphSize(g)
			if dryRun {
				if err := store.CheckGraph(ctx, g); err != nil {
					return nil, "", fmt.Errorf("%s: %w", args[0], err)
				}
				return size, fmt.Sprintf("Nothing is wrong with this graph: %s\n", size), nil
			}
			submitted, err := store.SubmitGraph(ctx, g, now)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", args[0], err)
			}
			numbers := make(map[string]int64, len(g.Tasks))
			for i, t := range g.Tasks {
				numbers[t.Name] = submitted.Tasks[i]
			}
			return struct {
				Graph int64            `json:"graph"`
				Tasks map[string]int64 `json:"tasks"`
			}{submitted.ID, numbers}, fmt.Sprintf("Submitted graph %d: %s\n", submitted.ID, size), nil
		})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what is wrong with the graph, or what it would be")
	return cmd
}

// newGraphSize describes a graph that is, or would be, submitted.
type newGraphSize struct {
	Tasks        int `json:"tasks"`
	Dependencies int `json:"dependencies"`
	Ready        int `json:"ready"` // may run at once
}

func graphSize(g sql.NewGraph) newGraphSize {
	size := newGraphSize{Tasks: len(g.Tasks)}
	for _, t := range g.Tasks {
		n := len(t.DependsOn) + len(t.Existing)
		size.Dependencies += n
		if n == 0 {
			size.Ready++
		}
	}
	return size
}

func (s newGraphSize) String() string {
	return fmt.Sprintf("%s, %s, %d to run at once", howMany(s.Tasks, "task", "tasks"), howMany(s.Dependencies, "dependency", "dependencies"), s.Ready)
}

func newGraphList(a *app) *cobra.Command {
	limit := 20
	cmd := a.graphCommand("list [OPTIONS]", "List graphs, newest first", "", nil,
		func(ctx context.Context, cmd *cobra.Command, store *sql.Store, _ []string) (any, string, error) {
			if limit <= 0 {
				return nil, "", usagef(cmd, "Invalid value for '--limit' / '-l': %d is not positive.", limit)
			}
			graphs, err := store.Graphs(ctx, limit)
			if err != nil {
				return nil, "", err
			}
			now := time.Now()
			lines := make([]graphLine, len(graphs))
			text := fmt.Sprintf("Found %s\n", howMany(len(graphs), "graph", "graphs"))
			for i, g := range graphs {
				lines[i] = graphLine(g)
				text += a.graphLine(g, now)
			}
			return lines, text, nil
		})
	cmd.Flags().IntVarP(&limit, "limit", "l", limit, "most graphs to list")
	return cmd
}

func newGraphStatus(a *app) *cobra.Command {
	return a.graphCommand("status [OPTIONS] GRAPH", "Show how far a graph is",
		`Show how far a graph is: how many of its tasks stand where, what it waits for
now, the chain of tasks that will take longest, and when all may be done.`,
		[]string{"GRAPH"},
		func(ctx context.Context, cmd *cobra.Command, store *sql.Store, args []string) (any, string, error) {
			g, err := readGraph(ctx, cmd, store, args[0])
			if err != nil {
				return nil, "", err
			}
			now := time.Now()
			report := g.Report(now)
			return report, a.graphReport(report, now), nil
		})
}

// readGraph reads all of the graph whose number is text.
func readGraph(ctx context.Context, cmd *cobra.Command, store *sql.Store, text string) (taskgraph.Graph, error) {
	graph, err := number(cmd, "GRAPH", text)
	if err != nil {
		return taskgraph.Graph{}, err
	}
	g, err := taskgraph.Read(ctx, store, graph, time.Now())
	return g, noSuchGraph(graph, err)
}

// noSuchGraph says so in a sentence, if that is the error.
func noSuchGraph(graph int64, err error) error {
	if errors.Is(err, scheduler.ErrUnknownGraph) {
		return fmt.Errorf("there is no graph %d", graph)
	}
	return err
}

func newGraphShow(a *app) *cobra.Command {
	var dot, svg bool
	cmd := &cobra.Command{
		Use:   "show [OPTIONS] GRAPH",
		Short: "Draw a graph",
		Long: `Draw a graph: in the language of Graphviz, or as a picture in SVG. In a large
graph, a box is all tasks of a type at one level.`,
		Args:                  arguments(false, false, "GRAPH"),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().BoolVar(&dot, "dot", false, "print the graph in the language of Graphviz (default)")
	cmd.Flags().BoolVar(&svg, "svg", false, "print a picture of the graph in SVG")
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		if dot && svg {
			return usagef(cmd, "--dot and --svg exclude each other.")
		}
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			g, err := readGraph(ctx, cmd, store, args[0])
			if err != nil {
				return err
			}
			if svg {
				return a.print(g.Draw().SVG())
			}
			return a.print(g.Draw().DOT())
		})
	})
	return cmd
}

func newGraphCancel(a *app) *cobra.Command {
	return a.graphCommand("cancel [OPTIONS] GRAPH", "Cancel a graph",
		`Cancel a graph: those of its tasks that were not sent will not run, and those
that were are not tried again if they fail.`,
		[]string{"GRAPH"},
		func(ctx context.Context, cmd *cobra.Command, store *sql.Store, args []string) (any, string, error) {
			graph, err := number(cmd, "GRAPH", args[0])
			if err == nil {
				err = noSuchGraph(graph, store.CancelGraph(ctx, graph, time.Now()))
			}
			if err != nil {
				return nil, "", err
			}
			return afterwards(ctx, store, graph, "Cancelled graph")
		})
}

func newGraphRetry(a *app) *cobra.Command {
	return a.graphCommand("retry [OPTIONS] GRAPH", "Take up again what of a graph has failed",
		`Take up again those tasks of a graph that have failed for good, were cancelled,
or waited longer than their deadline, and what could not run because of them.`,
		[]string{"GRAPH"},
		func(ctx context.Context, cmd *cobra.Command, store *sql.Store, args []string) (any, string, error) {
			graph, err := number(cmd, "GRAPH", args[0])
			if err == nil {
				_, err = store.RetryGraph(ctx, graph)
				err = noSuchGraph(graph, err)
			}
			if err != nil {
				return nil, "", err
			}
			return afterwards(ctx, store, graph, "Retried graph")
		})
}

// afterwards does what a change has made to do for graphs, as a runner would, and
// tells how the graph stands then.
func afterwards(ctx context.Context, store *sql.Store, graph int64, what string) (any, string, error) {
	if err := settleGraphs(ctx, store); err != nil {
		return nil, "", err
	}
	g, err := store.Graph(ctx, graph)
	if err != nil {
		return nil, "", err
	}
	return graphLine(g), fmt.Sprintf("%s %d: %s\n", what, graph, graphCounts(g)), nil
}

// settleGraphs leaves to a runner what others keep from being done now.
func settleGraphs(ctx context.Context, store *sql.Store) error {
	const tries, wait = 50, 100 * time.Millisecond
	for waited := 0; waited < tries; {
		round, err := store.DrainGraphs(ctx, time.Now())
		if err == nil && round.Waits && !round.More {
			waited++
			err = daemon.Sleep(ctx, wait)
		} else if err == nil && !round.More {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func newGraphRelease(a *app) *cobra.Command {
	var force bool
	cmd := a.graphCommand("release [OPTIONS] TASK", "Let a task run that waits for itself",
		`Let a task run that depends on itself, once all else it depends on has ended.
With --force, let a task run whatever it depends on.`,
		[]string{"TASK"},
		func(ctx context.Context, cmd *cobra.Command, store *sql.Store, args []string) (any, string, error) {
			task, err := number(cmd, "TASK", args[0])
			if err != nil {
				return nil, "", err
			}
			place, err := store.GraphTask(ctx, task)
			switch {
			case err != nil:
				return nil, "", err
			case place == nil:
				return nil, "", fmt.Errorf("task %d is in no graph", task)
			case place.State != sql.GraphWaiting:
				return nil, "", fmt.Errorf("task %d (%s) is not waiting: its state is %s", task, place.Name, place.State)
			}
			if !force {
				if err := onlyForItself(ctx, store, task); err != nil {
					return nil, "", err
				}
			}
			released, err := store.ReleaseTask(ctx, task, time.Now())
			if err == nil && !released {
				err = fmt.Errorf("task %d is not waiting any more", task)
			}
			if err != nil {
				return nil, "", err
			}
			return map[string]any{"task": task, "graph": place.Graph, "name": place.Name},
				fmt.Sprintf("Released task %d (%s of graph %d)\n", task, place.Name, place.Graph), nil
		})
	cmd.Flags().BoolVar(&force, "force", false, "release it although it waits for other tasks")
	return cmd
}

// onlyForItself is an error that names what else a task waits for.
func onlyForItself(ctx context.Context, store *sql.Store, task int64) error {
	unmet, err := store.UnmetDependencies(ctx, task, taskgraph.MaxDependencies)
	if err != nil {
		return err
	}
	var others []string
	for _, d := range unmet {
		if d.ID != task {
			others = append(others, describeDependency(d))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("task %d still waits for %s (--force releases it all the same)", task, enumerate(others, len(others)))
}
