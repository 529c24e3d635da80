package origin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/send"
	"swh-scheduler/sql/db"
)

func newSendFromScheduler(a *command.App) *cobra.Command {
	var filter visitFilterFlags
	var queue string
	cmd := &cobra.Command{
		Use:   "send-origins-from-scheduler-to-celery [OPTIONS] VISIT_TYPE_NAME",
		Short: "Send next origin visits of VISIT_TYPE_NAME to celery, filling the queue",
		Long: `Send next origin visits of VISIT_TYPE_NAME to celery, filling the queue up to the
limit of the task type. The visits use the lanes of the queue. They count as work of the
groups that share the queue, but are not divided between the groups.`,
		Args: command.Args("VISIT_TYPE_NAME"),
	}
	filter.flags(cmd.Flags())
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "target celery `QUEUE` (default that of the task type)")
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, args []string) error {
		f, err := filter.filter(args[0])
		if err != nil {
			return err
		}
		tt, err := store.TaskType(ctx, model.LoaderTaskType(args[0]))
		if errors.Is(err, model.ErrUnknownTaskType) {
			return command.Usagef(cmd, "Unknown task type %s.", model.LoaderTaskType(args[0]))
		}
		if err != nil {
			return err
		}
		if queue == "" {
			queue = tt.BackendName
		}
		return send.Once(ctx, a.Sending(cmd), store, send.Visits{Filter: f, TaskType: tt, Queue: queue})
	})
	return cmd
}

type visitFilterFlags struct {
	policy      *string
	tableSample float64
	enabled     bool
	lister      ListerFlags
	cooldowns   [len(cooldownFlags)]string
}

// cooldownFlags are the cooldowns, with the defaults of the Python command, which are not
// all those of its daemons.
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
	command.Pair(flags, &f.enabled, "only-enabled", "", "only-disabled", "origins that are enabled (default)", "origins that are disabled")
	command.PythonName(flags, "only-enabled", "enabled")
	f.lister.Flags(flags)
	for i, c := range cooldownFlags {
		flags.StringVar(&f.cooldowns[i], c.name, c.otherwise, c.usage)
		command.PythonName(flags, c.name, c.name+"_str")
	}
}

func (f *visitFilterFlags) filter(visitType string) (model.VisitFilter, error) {
	v := model.VisitFilter{
		VisitType: visitType, Policy: model.VisitPolicy(*f.policy), Disabled: !f.enabled,
		ListerName: f.lister.Name, ListerInstanceName: f.lister.Instance, TableSample: f.tableSample,
	}
	if !(v.TableSample >= 0 && v.TableSample <= 100) {
		return v, fmt.Errorf("--tablesample: %v is not between 0 and 100", v.TableSample)
	}
	for i, field := range []*time.Duration{&v.Cooldowns.Absolute, &v.Cooldowns.Scheduled, &v.Cooldowns.NotFound, &v.Cooldowns.Failed} {
		if f.cooldowns[i] == "" {
			continue // none
		}
		var err error
		if *field, err = pytext.ParseInterval(f.cooldowns[i]); err != nil {
			return v, fmt.Errorf("--%s: %w", cooldownFlags[i].name, err)
		}
	}
	return v, nil
}

type ListerFlags struct{ Name, Instance string }

func (l *ListerFlags) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&l.Name, "lister-name", "", "limit origins to those listed by listers of this `NAME`")
	flags.StringVar(&l.Instance, "lister-instance-name", "", "limit origins to those listed by lister instances of this `NAME`")
}
