package task

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

func newTaskArchive(a *command.App) *cobra.Command {
	dryRun, output := false, "text"
	cmd := &cobra.Command{
		Use:   "archive [OPTIONS]",
		Short: "Delete tasks that ended long ago, as configured",
		Long: `Delete tasks that ended longer ago than the configuration's archive.after says for
their type, with their runs, and print how many. If there is an archive.directory,
they are written there first. start-runner does the same, once a day and in small
steps.

Tasks end when they are disabled, or completed one-shot tasks. The tasks of a graph
go together, and a task stays on which an open one depends.`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "delete and write nothing, and print what would go")
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, _ []string) error {
		if len(a.Config.Archive.After) == 0 {
			return a.Config.Missing("archive.after", "a mapping from task types to durations, such as {default: 365 days}")
		}
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		o, err := maintenance.ArchiveOptions(ctx, store, a.Config.Archive)
		if err != nil {
			return err
		}
		sums := make(map[string]graphs.Archived)
		o.DryRun = dryRun
		o.Count = func(taskType string, n graphs.Archived) {
			sum := sums[taskType]
			sums[taskType] = graphs.Archived{Tasks: sum.Tasks + n.Tasks, Runs: sum.Runs + n.Runs}
		}
		if err := store.ArchiveAll(ctx, o); err != nil {
			return err
		}
		var rows [][]string
		for _, taskType := range slices.Sorted(maps.Keys(sums)) {
			rows = append(rows, []string{taskType, fmt.Sprint(sums[taskType].Tasks), fmt.Sprint(sums[taskType].Runs)})
		}
		return a.Show(output, sums, pytext.Table([]string{"task type", "tasks", "runs"}, rows)+"\n")
	})
	return cmd
}
