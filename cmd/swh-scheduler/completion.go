package main

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/scheduler"
)

// completionWait bounds how long a shell waits for the names of task types: a
// database that is away must not hold up somebody who types.
const completionWait = time.Second

// addCompletion teaches shells what options and arguments may be: the words of
// choices, and the task types and visit types that the scheduler has.
func (a *app) addCompletion(root *cobra.Command) {
	taskTypes, visitTypes := a.complete(taskTypeNames), a.complete(visitTypeNames)
	first := func(complete cobra.CompletionFunc) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return complete(cmd, args, word)
		}
	}
	arguments := map[string]cobra.CompletionFunc{
		"task add": first(taskTypes), "task list-pending": taskTypes, "task schedule_origins": first(taskTypes),
		"origin grab-next": first(visitTypes), "origin peek-next": first(visitTypes), "origin schedule-next": first(visitTypes),
		"origin send-origins-from-scheduler-to-celery": first(visitTypes), "origin send-origins-from-file-to-celery": first(taskTypes),
		"shares status": taskTypes,
	}
	options := map[string]cobra.CompletionFunc{
		"task list --task-type": taskTypes, "task-type list --task_type": taskTypes, "start-runner --task-type": taskTypes,
		"schedule-recurrent --visit-type": visitTypes, "explain --type": visitTypes, "add-forge-now schedule-first-visits --type-name": visitTypes,
	}
	var walk func(cmd *cobra.Command, path string)
	walk = func(cmd *cobra.Command, path string) {
		cmd.ValidArgsFunction = arguments[path]
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			complete := options[path+" --"+f.Name]
			switch value := f.Value.(type) {
			case choice:
				complete = cobra.FixedCompletions(value.choices, cobra.ShellCompDirectiveNoFileComp)
			case choices:
				complete = cobra.FixedCompletions(value.choices, cobra.ShellCompDirectiveNoFileComp)
			}
			if complete == nil {
				return
			}
			if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
				panic(err) // it is there, and was not registered before
			}
		})
		for _, sub := range cmd.Commands() {
			name := sub.Name()
			if path != "" {
				name = path + " " + name
			}
			walk(sub, name)
		}
	}
	walk(root, "")
}

// complete offers names that it makes of the scheduler's task types; none if that
// is not there.
func (a *app) complete(names func([]scheduler.TaskType) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (offered []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Root().Context()), completionWait)
		defer cancel()
		a.log = slog.New(slog.NewTextHandler(io.Discard, nil))
		cmd.SetContext(ctx)
		if a.prepareGlobal(cmd.Root(), environmentPrefix) != nil || a.loadConfig(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		err := a.withBackend(cmd, func(ctx context.Context, b backend) error {
			types, err := b.TaskTypes(ctx)
			offered = names(types)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

func taskTypeNames(types []scheduler.TaskType) []string {
	names := make([]string, len(types))
	for i, tt := range types {
		names[i] = tt.Type + "\t" + tt.Description
	}
	slices.Sort(names)
	return names
}

func visitTypeNames(types []scheduler.TaskType) []string {
	var names []string
	for _, tt := range types {
		if visitType, ok := scheduler.LoadedVisitType(tt.Type); ok {
			names = append(names, visitType)
		}
	}
	slices.Sort(names)
	return names
}
