// Package origin has the commands of origin.
package origin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/cli/task"
	"swh-scheduler/internal/model"
)

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "origin [OPTIONS] COMMAND [ARGS]...",
		Short: "Manipulate listed origins",
	}
	cmd.AddCommand(
		newGrabNext(a), newPeekNext(a), newScheduleNext(a),
		newSendFromScheduler(a), newSendFromFile(a),
		newUpdateMetrics(a), newCheckListed(a), newCheckIngested(a), newHint(a),
	)
	return cmd
}

func policyFlag(flags *pflag.FlagSet) *string {
	return flags.StringP("policy", "p", string(model.OldestScheduledFirst), "scheduling `POLICY`, which decides which origins come first")
}

// withPolicy adds the option --policy to flags, and makes filters with it.
func withPolicy(flags *pflag.FlagSet) filterFunc {
	policy := policyFlag(flags)
	return func(visitType string) (model.VisitFilter, error) {
		return model.VisitFilter{VisitType: visitType, Policy: model.VisitPolicy(*policy), Cooldowns: model.DefaultCooldowns}, nil
	}
}

type filterFunc func(visitType string) (model.VisitFilter, error)

func typeAndCount(cmd *cobra.Command, args []string) (visitType string, count int, err error) {
	n, err := command.Integer(args[1])
	switch {
	case err != nil:
		return "", 0, command.Usagef(cmd, "Invalid value for 'COUNT': %s", err)
	case n < 0:
		return "", 0, fmt.Errorf("COUNT: %d is negative", n)
	}
	return args[0], int(n), nil
}

func newGrabNext(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grab-next [OPTIONS] TYPE COUNT",
		Short: "Grab the next COUNT origins to visit using the TYPE loader",
		Long: `Grab the next COUNT origins to visit using the TYPE loader from the listed
origins, and mark them as scheduled.`,
	}
	return nextCommand(a, cmd, withPolicy(cmd.Flags()), false)
}

func newPeekNext(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peek-next [OPTIONS] TYPE COUNT",
		Short: "Get information about the next COUNT origins that will be scheduled for TYPE",
	}
	var filter visitFilterFlags
	filter.flags(cmd.Flags())
	return nextCommand(a, cmd, filter.filter, true)
}

// nextCommand makes cmd grab the next origins and print them.
func nextCommand(a *command.App, cmd *cobra.Command, filterOf filterFunc, dryRun bool) *cobra.Command {
	var table originTable
	table.flags(cmd.Flags())
	cmd.Args = command.Args("TYPE", "COUNT")
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		visitType, count, err := typeAndCount(cmd, args)
		if err != nil {
			return err
		}
		if err := table.check(cmd); err != nil {
			return err
		}
		filter, err := filterOf(visitType)
		if err != nil {
			return err
		}
		origins, err := b.GrabNextVisits(ctx, filter, time.Now(), count, dryRun)
		if err != nil {
			return err
		}
		if len(origins) == 0 && count > 0 {
			if err := a.WarnOfVisitType(ctx, b, visitType); err != nil {
				return err
			}
		}
		return table.print(a, origins)
	})
	return cmd
}

func newScheduleNext(a *command.App) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "schedule-next [OPTIONS] TYPE COUNT",
		Short: "Make one-shot tasks of the next COUNT origin visits of the TYPE loader",
		Long: `Send the next COUNT origin visits of the TYPE loader to the scheduler as one-shot
tasks, which start-runner sends to Celery.`,
		Args: command.Args("TYPE", "COUNT"),
	}
	filterOf := withPolicy(cmd.Flags())
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		visitType, count, err := typeAndCount(cmd, args)
		if err != nil {
			return err
		}
		filter, _ := filterOf(visitType)
		created, err := b.ScheduleNextVisits(ctx, filter, time.Now(), count)
		if err != nil {
			return err
		}
		if len(created) == 0 && count > 0 {
			if err := a.WarnOfVisitType(ctx, b, visitType); err != nil {
				return err
			}
		}
		return task.PrintCreated(ctx, a, b, created, output)
	})
	return cmd
}
