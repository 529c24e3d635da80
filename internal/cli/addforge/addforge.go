// Package addforge has the commands of add-forge-now.
package addforge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/cli/origin"
	"swh-scheduler/internal/cli/task"
	"swh-scheduler/internal/forge"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/taskinput"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/tasks"
)

const production, staging = "production", "staging" // presets

func New(a *command.App) *cobra.Command {
	preset := production
	cmd := &cobra.Command{
		Use:   "add-forge-now [OPTIONS] COMMAND [ARGS]...",
		Short: "Manipulate add-forge-now requests",
	}
	cmd.Flags().VarP(command.Choice(&preset, production, staging), "preset", "p", "preset to use: production or staging")
	cmd.AddCommand(newRegisterLister(a, &preset), newScheduleFirstVisits(a, &preset))
	return cmd
}

func newRegisterLister(a *command.App, preset *string) *cobra.Command {
	return &cobra.Command{
		Use:   "register-lister [OPTIONS] LISTER_NAME [OPTIONS]...",
		Short: "Register the lister tasks in the scheduler",
		Long: `Register the lister tasks in the scheduler. OPTIONS are their arguments in YAML,
keyword arguments of the form key=value.

With the preset production, the command schedules a recurring full listing now and a
recurring incremental one in a day, as far as the lister has these task types. With
staging, it schedules a single full listing, limited by max_pages (2) and
max_origins_per_page (5). The origins of that listing are recorded as disabled.`,
		Example: `  swh-scheduler add-forge-now -p staging register-lister gitlab url=https://gitlab.example/api/v4`,
		Args:    command.Args("LISTER_NAME", "[OPTIONS]..."),
		RunE: a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
			types, err := forge.Listings(ctx, b, args[0])
			if err != nil {
				return err
			}
			if len(types) == 0 {
				return command.Usagef(cmd, "Unknown lister type %s.", args[0])
			}
			arguments, err := taskinput.ParseArguments(args[1:])
			if err != nil {
				return err
			}
			policy := model.Recurring
			if *preset == staging {
				policy = model.Oneshot
				if arguments.Kwargs, err = forge.Limited(arguments.Kwargs); err != nil {
					return err
				}
				types = forge.OnlyFull(types)
			}
			for _, t := range types {
				next := time.Now()
				if t.Kind == "incremental" {
					next = next.Add(24 * time.Hour)
				}
				created, err := b.CreateTasks(ctx, []tasks.NewTask{{Type: t.TaskType, Arguments: arguments, Policy: policy, NextRun: next}})
				if err != nil {
					return err
				}
				if err := task.PrintCreated(ctx, a, b, created, "text"); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func newScheduleFirstVisits(a *command.App, preset *string) *cobra.Command {
	var visitTypes []string
	var lister origin.ListerFlags
	var prefix string
	cmd := &cobra.Command{
		Use:   "schedule-first-visits [OPTIONS]",
		Short: "Send the first visits of listed origins to celery",
		Long: `Send the next origin visits of some types to celery, filling their queues for
add-forge-now. With the preset production, the visits are of enabled origins; with
staging, of disabled ones.`,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&visitTypes, "type-name", "t", nil, "visit/loader `TYPE`; may be repeated")
	command.PythonName(flags, "type-name", "visit_type_names")
	lister.Flags(flags)
	flags.StringVar(&prefix, "queue-name-prefix", "add_forge_now", "`PREFIX` of the queues")
	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, _ []string) error {
		var all []send.Visits
		var unknown []string
		for _, visitType := range visitTypes {
			tt, err := store.TaskType(ctx, model.LoaderTaskType(visitType))
			if errors.Is(err, model.ErrUnknownTaskType) {
				unknown = append(unknown, visitType)
				continue
			}
			if err != nil {
				return err
			}
			// As with the Python scheduler, without cooldowns: these are first visits.
			all = append(all, send.Visits{TaskType: tt, Queue: fmt.Sprintf("%s:%s", prefix, tt.BackendName), Filter: model.VisitFilter{
				VisitType: visitType, Policy: model.OldestScheduledFirst, Disabled: *preset != production,
				ListerName: lister.Name, ListerInstanceName: lister.Instance,
			}})
		}
		if unknown != nil {
			return command.Usagef(cmd, "Unknown task types %s.", strings.Join(unknown, ","))
		}
		if len(all) == 0 {
			return nil
		}
		return send.Once(ctx, a.Sending(cmd), store, all...)
	})
	return cmd
}
