package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// The presets of add-forge-now.
const (
	production = "production"
	staging    = "staging"
)

func newAddForgeNow(a *app) *cobra.Command {
	preset := production
	cmd := &cobra.Command{
		Use:                   "add-forge-now [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Manipulate add-forge-now requests",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.Flags().VarP(choice{&preset, []string{production, staging}}, "preset", "p", "preset to use: production or staging")
	cmd.AddCommand(newRegisterLister(a, &preset), newScheduleFirstVisits(a, &preset))
	return cmd
}

func newRegisterLister(a *app, preset *string) *cobra.Command {
	return &cobra.Command{
		Use:   "register-lister [OPTIONS] LISTER_NAME [OPTIONS]...",
		Short: "Register the lister tasks in the scheduler",
		Long: `Register the lister tasks in the scheduler. OPTIONS are their arguments in YAML,
keyword arguments of the form key=value.

With the preset production, a recurring full and an incremental listing are
scheduled, of the task types that the lister has: the full one now, the incremental
one in a day. With staging, a single full listing is scheduled, limited by max_pages
(2) and max_origins_per_page (5), whose origins are recorded as disabled.`,
		Example:               `  swh-scheduler add-forge-now -p staging register-lister gitlab url=https://gitlab.example/api/v4`,
		Args:                  arguments(true, true, "LISTER_NAME", "OPTIONS"),
		DisableFlagsInUseLine: true,
		RunE: a.configured(func(cmd *cobra.Command, args []string) error {
			return a.withBackend(cmd, func(ctx context.Context, b backend) error {
				types, err := listerTaskTypes(ctx, b, args[0])
				if err != nil {
					return err
				}
				if len(types) == 0 {
					return usagef(cmd, "Unknown lister type %s.", args[0])
				}
				arguments, err := parseArguments(args[1:])
				if err != nil {
					return err
				}
				policy := scheduler.Recurring
				if *preset == staging {
					policy = scheduler.Oneshot
					if arguments.Kwargs, err = limitedListing(arguments.Kwargs); err != nil {
						return err
					}
					types = onlyFullListing(types)
				}
				for _, t := range types {
					next := time.Now()
					if t.listing == "incremental" {
						next = next.Add(day)
					}
					created, err := b.CreateTasks(ctx, []sql.NewTask{{Type: t.name, Arguments: arguments, Policy: policy, NextRun: next}})
					if err != nil {
						return err
					}
					if err := a.printCreated(ctx, b, created, "text"); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
}

// listerTaskType is a task type of a lister: for full or incremental listings, or
// of a lister that doesn't tell them apart.
type listerTaskType struct{ name, listing string }

// listerTaskTypes finds the task types of a lister.
func listerTaskTypes(ctx context.Context, from taskTypes, lister string) ([]listerTaskType, error) {
	var types []listerTaskType
	for _, listing := range []string{"full", "incremental", ""} {
		name := "list-" + lister
		if listing != "" {
			name += "-" + listing
		}
		_, err := from.TaskType(ctx, name)
		switch {
		case errors.Is(err, scheduler.ErrUnknownTaskType):
		case err != nil:
			return nil, err
		default:
			types = append(types, listerTaskType{name, listing})
		}
	}
	return types, nil
}

// onlyFullListing leaves the incremental listing out where there is a full one.
func onlyFullListing(types []listerTaskType) []listerTaskType {
	if types[0].listing != "full" {
		return types
	}
	return slices.DeleteFunc(types, func(t listerTaskType) bool { return t.listing == "incremental" })
}

// limitedListing adds what keeps a listing small and without consequences.
func limitedListing(given json.RawMessage) (json.RawMessage, error) {
	var kwargs dispatch.Kwargs
	kwargs.Set("max_pages", json.RawMessage("2"))
	kwargs.Set("max_origins_per_page", json.RawMessage("5"))
	if err := kwargs.Merge(given); err != nil {
		return nil, err
	}
	kwargs.Set("enable_origins", json.RawMessage("false"))
	return kwargs.JSON(), nil
}

func newScheduleFirstVisits(a *app, preset *string) *cobra.Command {
	var visitTypes []string
	var lister listerFlags
	var prefix string
	cmd := &cobra.Command{
		Use:   "schedule-first-visits [OPTIONS]",
		Short: "Send the first visits of listed origins to celery",
		Long: `Send the next origin visits of some types to celery, filling their queues for
add-forge-now: visits of enabled origins with the preset production, of disabled ones
with staging.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&visitTypes, "type-name", "t", nil, "visit/loader `TYPE`; may be repeated")
	peerName(flags, "type-name", "visit_type_names")
	lister.flags(flags)
	flags.StringVar(&prefix, "queue-name-prefix", "add_forge_now", "`PREFIX` of the queues")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			var all []visits
			var unknown []string
			for _, visitType := range visitTypes {
				tt, err := b.TaskType(ctx, scheduler.LoaderTaskType(visitType))
				if errors.Is(err, scheduler.ErrUnknownTaskType) {
					unknown = append(unknown, visitType)
					continue
				}
				if err != nil {
					return err
				}
				// As with the peer, without cooldowns: these are first visits.
				all = append(all, visits{taskType: tt, queue: fmt.Sprintf("%s:%s", prefix, tt.BackendName), filter: scheduler.VisitFilter{
					VisitType: visitType, Policy: scheduler.OldestScheduledFirst, Disabled: *preset != production,
					ListerName: lister.name, ListerInstanceName: lister.instance,
				}})
			}
			if unknown != nil {
				return usagef(cmd, "Unknown task types %s.", strings.Join(unknown, ","))
			}
			if len(all) == 0 {
				return nil
			}
			return a.sendVisits(cmd, b, all)
		})
	})
	return cmd
}
