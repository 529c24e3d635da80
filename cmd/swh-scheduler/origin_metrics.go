package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
)

func newUpdateMetrics(a *app) *cobra.Command {
	var lister, instance string
	cmd := &cobra.Command{
		Use:   "update-metrics [OPTIONS]",
		Short: "Update the scheduler metrics on listed origins",
		Long: `Update the scheduler metrics on listed origins, of all listers or of one, and
print them as JSON.`,
		Example: `  swh-scheduler origin update-metrics
  swh-scheduler origin update-metrics --lister github
  swh-scheduler origin update-metrics --lister phabricator --instance llvm`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.StringVar(&lister, "lister", "", "only update metrics for this `LISTER`")
	flags.StringVar(&instance, "instance", "", "only update metrics for this lister `INSTANCE`")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			var id uuid.NullUUID
			if flags.Changed("lister") {
				l, err := b.Lister(ctx, lister, instance)
				if errors.Is(err, scheduler.ErrUnknownLister) {
					shown := "None"
					if flags.Changed("instance") {
						shown = instance
					}
					// The peer says it on standard output.
					if err := a.print("Lister not found: " + lister + " instance=" + shown + "\n"); err != nil {
						return err
					}
					return usagef(cmd, "Invalid value for '--lister': there is no lister '%s' with instance '%s'.", lister, instance)
				}
				if err != nil {
					return err
				}
				id = uuid.NullUUID{UUID: l.ID, Valid: true}
			}
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			metrics, err := b.UpdateMetrics(ctx, id, time.Time{})
			if err != nil {
				return err
			}
			text, err := metricsJSON(metrics, zone)
			if err != nil {
				return err
			}
			return a.print(text + "\n")
		})
	})
	return cmd
}

// metricsJSON is the peer's JSON of metrics: indented by four, keys sorted, all
// values texts.
func metricsJSON(metrics []scheduler.Metrics, zone *time.Location) (string, error) {
	rows := make([]map[string]string, len(metrics))
	count := func(n int32) string { return strconv.Itoa(int(n)) }
	for i, m := range metrics {
		rows[i] = map[string]string{
			"lister_id": m.ListerID.String(), "visit_type": m.VisitType, "last_update": pytext.Datetime(m.LastUpdate.In(zone)),
			"origins_known": count(m.OriginsKnown), "origins_enabled": count(m.OriginsEnabled),
			"origins_never_visited":        count(m.OriginsNeverVisited),
			"origins_with_pending_changes": count(m.OriginsWithPendingChanges),
		}
	}
	text, err := plainJSON(rows)
	if err != nil {
		return "", err
	}
	return indentedJSON(text, ""), nil
}
