package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

func newListerWeight(a *command.App) *cobra.Command {
	weight, output := 0.0, "text"
	cmd := &cobra.Command{
		Use:   "weight [OPTIONS] [NAME/INSTANCE]",
		Short: "Show the weights of listers, or set one",
		Long: fmt.Sprintf(`Show the listers with a weight other than 1, or set the weight of one, between %v and %v.

The weight is how much the staleness of a lister's origins counts for the policy freshness,
beside that of others. With a weight of 8, an origin without news is visited about twice as
often. Other policies don't use weights. The times of the next visits follow within six
hours.`, origins.MinListerWeight, float64(origins.MaxListerWeight)),
		Example: `  swh-scheduler lister weight
  swh-scheduler lister weight gitlab/gitlab.example --set 8`,
		Args: command.Args("[NAME/INSTANCE]"),
	}
	cmd.Flags().Float64Var(&weight, "set", weight, "set the `WEIGHT` of the lister")
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, args []string) error {
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		set := cmd.Flags().Changed("set")
		if len(args) == 0 {
			if set {
				return command.Usagef(cmd, "Missing argument 'NAME/INSTANCE'.")
			}
			return showWeights(ctx, a, store, output)
		}
		name, instance, ok := strings.Cut(args[0], "/")
		if !ok {
			return command.Usagef(cmd, "Invalid value for 'NAME/INSTANCE': %q has no slash.", args[0])
		}
		var err error
		if set {
			err = store.SetListerWeight(ctx, name, instance, weight)
		} else {
			weight, err = store.ListerWeight(ctx, name, instance)
		}
		if err != nil {
			return err
		}
		return a.Show(output, origins.ListerWeight{Name: name, Instance: instance, Weight: weight}, fmt.Sprintf("The weight of %s is %v.\n", pytext.Visible(args[0]), weight))
	})
	return cmd
}

func showWeights(ctx context.Context, a *command.App, store *db.Store, output string) error {
	weights, err := store.ListerWeights(ctx)
	if err != nil {
		return err
	}
	text := "All listers have the weight 1.\n"
	if len(weights) > 0 {
		rows := make([][]string, len(weights))
		for i, w := range weights {
			rows[i] = []string{a.Line(w.Name + "/" + w.Instance), fmt.Sprint(w.Weight)}
		}
		text = pytext.Table([]string{"lister", "weight"}, rows) + "\n"
	}
	return a.Show(output, append([]origins.ListerWeight{}, weights...), text)
}
