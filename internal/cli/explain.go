package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/explain"
	"swh-scheduler/sql/db"
)

func newExplain(a *command.App) *cobra.Command {
	var visitType string
	output := "text"
	cmd := &cobra.Command{
		Use:   "explain [OPTIONS] TASK_ID|URL",
		Short: "Explain why a task or an origin has not been scheduled, and when it will be",
		Long: `Explain why a task, given by its id, or an origin, given by its URL, has not been
scheduled, and when it will be. The answer is based on the database, the configuration
(scheduling_policy, lost_after) and, if reachable, the broker.`,
		Example: `  swh-scheduler explain 1234
  swh-scheduler explain https://forge.example/project.git --type git`,
		Args: command.Args("TASK_ID|URL"),
	}
	cmd.Flags().StringVarP(&visitType, "type", "t", "", "explain the origin's visits of this `TYPE` only")
	command.OutputFlag(cmd.Flags(), &output)
	again := watched(a, cmd)
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, args []string) error {
		if err := store.CheckVersion(ctx); err != nil {
			return err
		}
		x := explain.Gatherer{Store: store, Config: a.Config, Log: a.Log}
		if broker, err := a.Config.Broker(); err != nil {
			x.NoBroker = err
		} else {
			inspector := a.Inspector(broker, cmd.CommandPath())
			defer func() { _ = inspector.Close() }()
			x.Broker = inspector
		}
		return again.run(ctx, func() error {
			x.Now = time.Now()
			var all []explain.Explanation
			if id, err := strconv.ParseInt(args[0], 10, 64); err == nil && visitType == "" {
				one, err := x.Task(ctx, id)
				if err != nil {
					return err
				}
				all = []explain.Explanation{one}
			} else if all, err = x.Origins(ctx, args[0], visitType); err != nil {
				return err
			}
			texts := make([]string, len(all))
			for i, e := range all {
				texts[i] = strings.Join(append([]string{a.Bold(a.Line(e.Subject)) + "\n" + a.Line(e.Summary)}, a.Lines(e.Reasons)...), "\n  - ") + "\n"
			}
			return again.show(output, all, strings.Join(texts, "\n"))
		})
	})
	return cmd
}
