package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/scheduler"
)

func newTaskListPending(a *app) *cobra.Command {
	var (
		limit  int
		before dateTime
	)
	output := "text"
	cmd := &cobra.Command{
		Use:                   "list-pending [OPTIONS] TASK_TYPES...",
		Short:                 "List tasks with no priority that are going to be run",
		Args:                  arguments(true, false, "TASK_TYPES..."),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.IntVarP(&limit, "limit", "l", 0, "most tasks to list of each type (default all)")
	flags.VarP(&before, "before", "b", "list the tasks that are to run before this `DATE` (default now)")
	peerName(flags, "limit", "num_tasks")
	outputFlag(flags, &output)

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		limited := cmd.Flags().Changed("limit")
		if limit < 0 {
			return fmt.Errorf("--limit: %d is negative", limit)
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			at := now
			if !before.isZero() {
				at = before.in(zone)
			}
			var parts []string
			objects := []taskObject{}
			for _, taskType := range args {
				var pending []scheduler.Task
				if !limited || limit > 0 { // to the store, 0 means all
					if pending, err = b.PeekReadyTasks(ctx, taskType, at, limit); err != nil {
						return err
					}
				}
				objects = append(objects, taskObjects(pending)...)
				parts = append(parts, fmt.Sprintf("Found %d %s tasks\n", len(pending), taskType))
				for _, task := range pending {
					text, err := a.formatTask(task, zone, now)
					if err != nil {
						return err
					}
					parts = append(parts, text)
				}
			}
			if output == "json" {
				return a.printJSON(objects)
			}
			return a.print(strings.Join(parts, "\n") + "\n")
		})
	})
	return cmd
}
