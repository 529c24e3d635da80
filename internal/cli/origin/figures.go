package origin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/forge"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/service"
)

func newCheckListed(a *command.App) *cobra.Command {
	var listing bool
	output := "text"
	cmd := &cobra.Command{
		Use:   "check-listed-origins [OPTIONS] LISTER_NAME INSTANCE_NAME",
		Short: "Check listed origins registered in the scheduler database",
		Args:  command.Args("LISTER_NAME", "INSTANCE_NAME"),
	}
	cmd.Flags().BoolVarP(&listing, "list", "l", false, "display listed origins")
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = onForge(a, func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string, origins []model.ListedOrigin) error {
		if output == "json" {
			table := originTable{output: output}
			return errors.Join(table.check(cmd), table.print(a, origins))
		}
		var text strings.Builder
		if listing {
			rows := make([][]string, len(origins))
			for i, o := range origins {
				rows[i] = []string{a.Line(o.URL), dateOrNone(&o.LastSeen), dateOrNone(o.LastUpdate)}
			}
			text.WriteString(pytext.Table([]string{"url", "last_seen", "last_update"}, rows) + "\n")
		}
		fmt.Fprintf(&text, "\nForge %s (%s) has %d listed origins in the scheduler database.\n", args[1], args[0], len(origins))
		return a.Print(text.String())
	})
	return cmd
}

func newCheckIngested(a *command.App) *cobra.Command {
	var (
		listing, watch bool
		period         string
		minimum        float64
	)
	output := "text"
	cmd := &cobra.Command{
		Use:   "check-ingested-origins [OPTIONS] LISTER_NAME INSTANCE_NAME",
		Short: "Check the origins marked as ingested in the scheduler database",
		Args:  command.Args("LISTER_NAME", "INSTANCE_NAME"),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&listing, "list", "l", false, "display the visited origins")
	command.PythonName(flags, "list", "with_listing")
	flags.BoolVarP(&watch, "watch", "w", false, "watch until all were visited")
	flags.StringVar(&period, "watch-period", "30 minutes", "`INTERVAL` between two checks")
	flags.Float64Var(&minimum, "minimum-success", 0, "minimum success rate as a decimal `PERCENTAGE`; fewer are an error")
	command.PythonName(flags, "minimum-success", "minimum_success_rate")
	command.OutputFlag(flags, &output)
	cmd.RunE = onForge(a, func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string, origins []model.ListedOrigin) error {
		c, err := countIngested(ctx, a, b, origins, args[1])
		if err != nil {
			return err
		}
		if watch {
			pause, err := pytext.ParseInterval(period)
			if err != nil {
				return fmt.Errorf("--watch-period: %w", err)
			}
			for c.Unvisited > 0 {
				if err := a.Print(c.Summary(args[1], " ingestion is still in progress...")); err != nil {
					return err
				}
				if err := service.Sleep(ctx, pause); err != nil {
					return err
				}
				if c, err = countIngested(ctx, a, b, origins, args[1]); err != nil {
					return err
				}
			}
		}
		if err := printIngested(a, c, args, listing, output); err != nil {
			return err
		}
		if c.SuccessRate() < minimum {
			return command.Usagef(cmd, "There are too many ingestion failures.")
		}
		return nil
	})
	return cmd
}

func printIngested(a *command.App, c forge.Ingested, args []string, listing bool, output string) error {
	var text strings.Builder
	if listing {
		rows := make([][]string, len(c.Visited))
		for i, s := range c.Visited {
			rows[i] = []string{s.URL, string(s.LastVisitStatus), dateOrNone(s.LastVisit)}
		}
		text.WriteString(pytext.Table([]string{"url", "last_visit_status", "last_visit"}, rows) + "\n")
	}
	text.WriteString(c.Summary(args[1], fmt.Sprintf(" (%s) has %d scheduled ingests in the scheduler.", args[0], c.Total())))
	return a.Show(output, c.Object(listing), text.String())
}

// onForge makes the function of a command that uses the origins of a lister's instance. Dates
// are to be shown in zone.
func onForge(a *command.App, do func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string, origins []model.ListedOrigin) error) func(*cobra.Command, []string) error {
	return a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		bar := a.Progress("reading listed origins", 0)
		origins, err := forge.ListedOrigins(ctx, b, args[0], args[1], bar.Add)
		bar.Stop()
		if err != nil {
			return err
		}
		return do(ctx, cmd, b, args, origins)
	})
}

func countIngested(ctx context.Context, a *command.App, b command.Scheduler, origins []model.ListedOrigin, instance string) (forge.Ingested, error) {
	bar := a.Progress("reading visits", len(origins))
	defer bar.Stop()
	return forge.CountIngested(ctx, b, origins, instance, bar.Add)
}

func newUpdateMetrics(a *command.App) *cobra.Command {
	var lister, instance string
	cmd := &cobra.Command{
		Use:   "update-metrics [OPTIONS]",
		Short: "Update the scheduler metrics on listed origins",
		Long: `Update the scheduler metrics on listed origins, of all listers or of one, and
print them as JSON.`,
		Example: `  swh-scheduler origin update-metrics
  swh-scheduler origin update-metrics --lister github
  swh-scheduler origin update-metrics --lister phabricator --instance llvm`,
	}
	flags := cmd.Flags()
	flags.StringVar(&lister, "lister", "", "only update metrics for this `LISTER`")
	flags.StringVar(&instance, "instance", "", "only update metrics for this lister `INSTANCE`")
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, _ []string) error {
		var id uuid.NullUUID
		if flags.Changed("lister") {
			l, err := b.Lister(ctx, lister, instance)
			if errors.Is(err, model.ErrUnknownLister) {
				shown := "None"
				if flags.Changed("instance") {
					shown = instance
				}
				// The Python scheduler prints it to standard output.
				if err := a.Print("Lister not found: " + lister + " instance=" + shown + "\n"); err != nil {
					return err
				}
				return command.Usagef(cmd, "Invalid value for '--lister': there is no lister '%s' with instance '%s'.", lister, instance)
			}
			if err != nil {
				return err
			}
			id = uuid.NullUUID{UUID: l.ID, Valid: true}
		}
		metrics, err := b.UpdateMetrics(ctx, id, time.Time{})
		if err != nil {
			return err
		}
		text, err := metricsJSON(metrics)
		if err != nil {
			return err
		}
		return a.Print(text + "\n")
	})
	return cmd
}

func metricsJSON(metrics []model.Metrics) (string, error) {
	rows := make([]map[string]string, len(metrics))
	for i, m := range metrics {
		rows[i] = map[string]string{
			"lister_id": m.ListerID.String(), "visit_type": m.VisitType, "last_update": pytext.Datetime(m.LastUpdate.UTC()),
			"origins_known": fmt.Sprint(m.OriginsKnown), "origins_enabled": fmt.Sprint(m.OriginsEnabled),
			"origins_never_visited":        fmt.Sprint(m.OriginsNeverVisited),
			"origins_with_pending_changes": fmt.Sprint(m.OriginsWithPendingChanges),
		}
	}
	text, err := pytext.PlainJSON(rows)
	if err != nil {
		return "", err
	}
	return pytext.IndentedJSON(text, ""), nil
}
