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
		Short: "Say how fresh the archive is, and when the backlog of visits is gone",
		Long: `Say, by visit type, how many origins lack a visit, how fast they come and are visited, and
when that backlog is gone at the present rate. With --workers, the forecast is for so many
parallel workers; with --by, it says how many are needed until then.

It reads counts that daemons and update-metrics took before, and says their age and the time
over which rates are measured. The page Freshness of the dashboard has the same.

  never     enabled origins that were never visited
  changed   origins that changed since their last visit, as their listers tell
  staleness for how long the archive has lacked the oldest change, as a mean; with the policy
            freshness only
  parallel  workers that are busy, as visits and their mean runtime give
  consumers that read the queues of the visit type`,
		Example: `  swh-scheduler forecast --visit-type git --workers 40
  swh-scheduler forecast --by 2027-03-01`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&filter.VisitType, "visit-type", "t", "", "show this visit `TYPE` only")
	cmd.Flags().IntVar(&filter.Workers, "workers", 0, "forecast for this `NUMBER` of parallel workers")
	cmd.Flags().Var(&by, "by", "say how many workers are needed until this `DATE`")
	command.Must(cmd.Flags(), "workers", func() bool { return filter.Workers >= 0 }, "is negative")
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, _ []string) error {
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		zone, err := command.ServerZone(ctx, store)
		if err != nil {
			return err
		}
		filter.By = by.In(zone, time.Time{})
		f, err := status.ReadFreshness(ctx, store, a.Config, filter)
		if err != nil {
			return err
		}
		return a.Show(output, f, status.FreshnessTables(a.Terminal(), f))
	})
	return cmd
}
