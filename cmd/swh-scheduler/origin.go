package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/scheduler"
)

func newOrigin(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "origin [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Manipulate listed origins",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(
		newGrabNext(a), newPeekNext(a), newScheduleNext(a),
		newSendFromScheduler(a), newSendFromFile(a),
		newUpdateMetrics(a), newCheckListed(a), newCheckIngested(a),
	)
	return cmd
}

func policyFlag(flags *pflag.FlagSet) *string {
	return flags.StringP("policy", "p", string(scheduler.OldestScheduledFirst), "scheduling `POLICY`, which says which origins come first")
}

// typeAndCount are the arguments of a command that takes some origins of a visit
// type.
func typeAndCount(cmd *cobra.Command, args []string) (visitType string, count int, err error) {
	n, err := integer(args[1])
	switch {
	case err != nil:
		return "", 0, usagef(cmd, "Invalid value for 'COUNT': %s", err)
	case n < 0:
		return "", 0, fmt.Errorf("COUNT: %d is negative", n)
	}
	return args[0], int(n), nil
}

func newGrabNext(a *app) *cobra.Command {
	var table originTable
	cmd := &cobra.Command{
		Use:   "grab-next [OPTIONS] TYPE COUNT",
		Short: "Grab the next COUNT origins to visit using the TYPE loader",
		Long: `Grab the next COUNT origins to visit using the TYPE loader from the listed
origins: they count as scheduled then.`,
		Args:                  arguments(false, false, "TYPE", "COUNT"),
		DisableFlagsInUseLine: true,
	}
	policy := policyFlag(cmd.Flags())
	table.flags(cmd.Flags())
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		visitType, count, err := typeAndCount(cmd, args)
		if err != nil {
			return err
		}
		if err := table.check(cmd); err != nil {
			return err
		}
		filter := scheduler.VisitFilter{VisitType: visitType, Policy: scheduler.VisitPolicy(*policy), Cooldowns: scheduler.DefaultCooldowns}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			origins, err := b.GrabNextVisits(ctx, filter, time.Now(), count, false)
			if err != nil {
				return err
			}
			return table.print(a, origins, zone)
		})
	})
	return cmd
}

func newPeekNext(a *app) *cobra.Command {
	var table originTable
	var filter visitFilterFlags
	cmd := &cobra.Command{
		Use:                   "peek-next [OPTIONS] TYPE COUNT",
		Short:                 "Get information about the next COUNT origins that will be scheduled for TYPE",
		Args:                  arguments(false, false, "TYPE", "COUNT"),
		DisableFlagsInUseLine: true,
	}
	filter.flags(cmd.Flags())
	table.flags(cmd.Flags())
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		visitType, count, err := typeAndCount(cmd, args)
		if err != nil {
			return err
		}
		if err := table.check(cmd); err != nil {
			return err
		}
		f, err := filter.filter(visitType)
		if err != nil {
			return err
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			origins, err := b.GrabNextVisits(ctx, f, time.Now(), count, true)
			if err != nil {
				return err
			}
			return table.print(a, origins, zone)
		})
	})
	return cmd
}

func newScheduleNext(a *app) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "schedule-next [OPTIONS] TYPE COUNT",
		Short: "Make one-shot tasks of the next COUNT origin visits of the TYPE loader",
		Long: `Send the next COUNT origin visits of the TYPE loader to the scheduler as one-shot
tasks, which start-runner sends to Celery.`,
		Args:                  arguments(false, false, "TYPE", "COUNT"),
		DisableFlagsInUseLine: true,
	}
	policy := policyFlag(cmd.Flags())
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		visitType, count, err := typeAndCount(cmd, args)
		if err != nil {
			return err
		}
		filter := scheduler.VisitFilter{VisitType: visitType, Policy: scheduler.VisitPolicy(*policy), Cooldowns: scheduler.DefaultCooldowns}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			created, err := b.ScheduleNextVisits(ctx, filter, time.Now(), count)
			if err != nil {
				return err
			}
			return a.printCreated(ctx, b, created, output)
		})
	})
	return cmd
}

// visitFilterFlags are the options that say which origins to visit next.
type visitFilterFlags struct {
	policy      *string
	tableSample float64
	enabled     bool
	lister      listerFlags
	cooldowns   [4]string // as cooldownFlags
}

// cooldownFlags are the cooldowns, with the peer's defaults: those of failed and
// not found origins are not the ones that its daemons have.
var cooldownFlags = [4]struct{ name, otherwise, usage string }{
	{"absolute-cooldown", "12 hours", "`INTERVAL` between two visits of the same origin"},
	{"scheduled-cooldown", "7 days", "`INTERVAL` before the same origin is scheduled again"},
	{"not-found-cooldown", "14 days", "`INTERVAL` before an origin that was not found is scheduled again"},
	{"failed-cooldown", "31 days", "`INTERVAL` before an origin that failed is scheduled again"},
}

func (f *visitFilterFlags) flags(flags *pflag.FlagSet) {
	f.policy = policyFlag(flags)
	f.enabled = true
	flags.Float64Var(&f.tableSample, "tablesample", 0, "look at this `PERCENTAGE` of the table only")
	pair(flags, &f.enabled, "only-enabled", "only-disabled", "origins that are enabled (default)", "origins that are disabled")
	peerName(flags, "only-enabled", "enabled")
	f.lister.flags(flags)
	for i, c := range cooldownFlags {
		flags.StringVar(&f.cooldowns[i], c.name, c.otherwise, c.usage)
		peerName(flags, c.name, c.name+"_str")
	}
}

// filter is the filter that the options ask for.
func (f *visitFilterFlags) filter(visitType string) (scheduler.VisitFilter, error) {
	v := scheduler.VisitFilter{
		VisitType: visitType, Policy: scheduler.VisitPolicy(*f.policy), Disabled: !f.enabled,
		ListerName: f.lister.name, ListerInstanceName: f.lister.instance, TableSample: f.tableSample,
	}
	if !(v.TableSample >= 0 && v.TableSample <= 100) {
		return v, fmt.Errorf("--tablesample: %v is not between 0 and 100", v.TableSample)
	}
	for i, field := range []*time.Duration{&v.Cooldowns.Absolute, &v.Cooldowns.Scheduled, &v.Cooldowns.NotFound, &v.Cooldowns.Failed} {
		if f.cooldowns[i] == "" {
			continue // none
		}
		var err error
		if *field, err = parseInterval(f.cooldowns[i]); err != nil {
			return v, fmt.Errorf("--%s: %w", cooldownFlags[i].name, err)
		}
	}
	return v, nil
}

// listerFlags are the options that limit origins to those of a lister.
type listerFlags struct{ name, instance string }

func (l *listerFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&l.name, "lister-name", "", "limit origins to those listed by listers of this `NAME`")
	flags.StringVar(&l.instance, "lister-instance-name", "", "limit origins to those listed by lister instances of this `NAME`")
}
