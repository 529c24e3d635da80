package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

func newForecast(a *command.App) *cobra.Command {
	var filter status.FreshnessFilter
	var by command.Date
	output := "text"
	cmd := &cobra.Command{
		Use:   "forecast [OPTIONS]",
		Short: "Show how fresh the archive is, and when the backlog of visits ends",
		Long: `Show for each visit type how many origins lack a visit, how fast that number grows and
shrinks, and when the backlog ends at the present rate. With --workers, the forecast is for
that number of parallel workers. With --by, it shows how many workers are needed until then.

The command reads counts that daemons and update-metrics stored earlier. It shows their age
and the time over which it measures rates. The page Freshness of the dashboard has the same.

  never     enabled origins that were never visited
  changed   origins that changed since their last visit, according to their listers
  staleness mean time for which the archive has lacked the oldest change; with the policy
            freshness only
  parallel  busy workers, computed from the visits and their mean runtime
  consumers consumers of the queues of the visit type`,
		Example: `  swh-scheduler forecast --visit-type git --workers 40
  swh-scheduler forecast --by 2027-03-01`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&filter.VisitType, "visit-type", "t", "", "show this visit `TYPE` only")
	cmd.Flags().IntVar(&filter.Workers, "workers", 0, "forecast for this `NUMBER` of parallel workers")
	cmd.Flags().Var(&by, "by", "show how many workers are needed until this `DATE`")
	command.Must(cmd.Flags(), "workers", func() bool { return filter.Workers >= 0 }, "is negative")
	command.OutputFlag(cmd.Flags(), &output)
	again := watched(a, cmd)
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, _ []string) error {
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		filter.By = by.Or(time.Time{})
		return again.run(ctx, func() error {
			f, err := status.ReadFreshness(ctx, store, a.Config, filter)
			if err != nil {
				return err
			}
			return again.show(output, f, status.FreshnessTables(a.Terminal(), f))
		})
	})
	return cmd
}
