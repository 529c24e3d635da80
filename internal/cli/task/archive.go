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
		Long: `Delete tasks that ended longer ago than archive.after in the configuration, with their
runs, and print how many. If the configuration has an archive.directory, the command
writes them there first. start-runner does the same, once a day and in small steps.

A task has ended if it is disabled, or is a completed one-shot task. All tasks of a
graph are deleted together. A task stays while an open task depends on it.`,
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
