package main

import (
	"context"

	"github.com/spf13/cobra"

	"swh-scheduler/runner"
	"swh-scheduler/sql"
)

func newStartRunnerFirstVisits(a *app) *cobra.Command {
	var period int
	cmd := &cobra.Command{
		Use:   "start-runner-first-visits [OPTIONS]",
		Short: "Starts a swh-scheduler runner service for first visits",
		Long: `Starts a swh-scheduler runner service for first visits: it sends the visits of
newly listed origins, for the listers that have queues of their own for them.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().IntVarP(&period, "period", "p", 0, "period (in s) at which first visits are looked for; 0 looks once and ends")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.send(cmd, period, func(_ context.Context, store *sql.Store, d *dispatcher) (sender, error) {
			f := runner.NewFirstVisits(runner.FirstVisitsOptions{
				Store: store, Slots: d.slots, Log: a.log, Reg: a.metrics, Period: seconds(period),
			})
			return sender{name: "runner of first visits", run: f.Run, once: f.RunOnce}, nil
		})
	})
	return cmd
}
