package cli

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
)

// completionWait is how long a shell waits for the names of task types.
const completionWait = time.Second

// addCompletion adds the shell completion of choices, task types and visit types.
func addCompletion(a *command.App, root *cobra.Command) {
	taskTypes, visitTypes := complete(a, taskTypeNames), complete(a, visitTypeNames)
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
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		if complete := arguments[path]; complete != nil {
			cmd.ValidArgsFunction = complete
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			complete := options[path+" --"+f.Name]
			if words := command.Words(f.Value); words != nil {
				complete = cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
			}
			if complete == nil {
				return
			}
			if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
				panic(err) // unreachable: the option exists, and has no other completion
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// complete offers names made of the scheduler's task types, or none if the scheduler is not reachable.
func complete(a *command.App, names func([]model.TaskType) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (offered []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Root().Context()), completionWait)
		defer cancel()
		a.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
		cmd.SetContext(ctx)
		if a.PrepareGlobal(cmd.Root()) != nil || a.LoadConfig(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = a.WithScheduler(cmd, func(ctx context.Context, b command.Scheduler) error {
			types, err := b.TaskTypes(ctx)
			if err == nil {
				offered = names(types)
			}
			return err
		})
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

func taskTypeNames(types []model.TaskType) []string {
	names := make([]string, len(types))
	for i, tt := range types {
		names[i] = tt.Type + "\t" + tt.Description
	}
	slices.Sort(names)
	return names
}

func visitTypeNames(types []model.TaskType) []string {
	var names []string
	for _, tt := range types {
		if visitType, ok := model.LoadedVisitType(tt.Type); ok {
			names = append(names, visitType)
		}
	}
	slices.Sort(names)
	return names
}
