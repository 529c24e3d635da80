package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/recurrent"
	"swh-scheduler/sql"
)

func newScheduleRecurrent(a *app) *cobra.Command {
	var visitTypes []string
	cmd := &cobra.Command{
		Use:   "schedule-recurrent [OPTIONS]",
		Short: "Starts the scheduler for recurrent visits",
		Long: `Starts the scheduler for recurrent visits: a loop for each visit type sends the
visits that are due to Celery.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&visitTypes, "visit-type", nil, "visit `TYPE` to schedule; those of all task types load-* if not given")
	peerName(flags, "visit-type", "visit_types")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.runDaemon(cmd, func(ctx context.Context, store *sql.Store) ([]daemon.Component, error) {
			taskTypes := make([]string, len(visitTypes))
			for i, visitType := range visitTypes {
				taskTypes[i] = scheduler.LoaderTaskType(visitType)
			}
			err := a.patiently(ctx, store, func(ctx context.Context) error {
				return checkTaskTypes(ctx, cmd, store, "Unknown task type: %s", taskTypes)
			})
			if err != nil {
				return nil, err
			}
			d, err := a.newDispatcher(cmd, store)
			if err != nil {
				return nil, err
			}
			s := recurrent.New(recurrent.Options{
				Store: store, Slots: d.slots, Log: a.log, Reg: a.metrics,
				VisitTypes: visitTypes, Policies: a.config.SchedulingPolicy, Shares: a.config.Shares, Lanes: a.config.Lanes,
				NoOriginsBackoff: a.config.NoOriginsScheduledBackoff, QueueFullBackoff: a.config.QueueFullBackoff,
			})
			sharing, err := a.sharing(ctx, store, d)
			if err != nil {
				return nil, err
			}
			laning, err := a.laning(ctx, store, d)
			return slices.Concat([]daemon.Component{{Name: "visit scheduler", Run: s.Run}}, sharing, laning, d.watching(), []daemon.Component{d.deliver()}), err
		})
	})
	return cmd
}
