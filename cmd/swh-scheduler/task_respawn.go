package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newTaskRespawn(a *app) *cobra.Command {
	nextRun := dateTime{}
	cmd := &cobra.Command{
		Use:   "respawn [OPTIONS] TASK_IDS...",
		Short: "Respawn tasks",
		Long: `Respawn tasks, given by their ids (see task list): they are to run at the given
date, whatever became of them before.`,
		Example:               `  swh-scheduler task respawn 1 3 12`,
		Args:                  arguments(true, false, "TASK_IDS..."),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().VarP(&nextRun, "next-run", "n", "`DATE` of their next run (default now)")

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		ids := make([]int64, len(args))
		texts := make([]string, len(args))
		for i, arg := range args {
			id, err := integer(arg)
			if err != nil {
				return fmt.Errorf("TASK_IDS: %q is not the id of a task, which is a number", arg)
			}
			ids[i], texts[i] = id, strconv.FormatInt(id, 10)
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			next := time.Now()
			if !nextRun.isZero() {
				next = nextRun.in(zone)
			}
			if err := b.SetTaskStatus(ctx, sql.StatusChange{IDs: ids, Status: scheduler.TaskNotScheduled, NextRun: next}); err != nil {
				return err
			}
			return a.print(fmt.Sprintf("Respawn tasks [%s]\n\n", strings.Join(texts, ", ")))
		})
	})
	return cmd
}
