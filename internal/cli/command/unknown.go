package command

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
)

// WarnOfTypes warns of task types that don't exist, after a command found nothing. Standard output stays the Python
// scheduler's.
func (a *App) WarnOfTypes(ctx context.Context, b Scheduler, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	known, err := taskTypeNames(ctx, b)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			a.warnOf("there is no task type of this name", "task_type", name, config.Nearest(name, known))
		}
	}
	return nil
}

func taskTypeNames(ctx context.Context, b Scheduler) ([]string, error) {
	all, err := b.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Type
	}
	return names, nil
}

// CheckTaskName returns a usage error with the nearest name if no task type has the name.
func CheckTaskName(ctx context.Context, cmd *cobra.Command, b Scheduler, name string) error {
	err := model.CheckTaskTypes(ctx, b, []string{name})
	if _, unknown := errors.AsType[model.UnknownTaskType](err); !unknown {
		return err
	}
	known, err := taskTypeNames(ctx, b)
	if err != nil {
		return err
	}
	return Usagef(cmd, "Unknown task name %s.%s", name, DidYouMean(name, known))
}

// WarnOfVisitType warns of a visit type without a task type, after a command found nothing.
func (a *App) WarnOfVisitType(ctx context.Context, b Scheduler, visitType string) error {
	return a.WarnOfTypes(ctx, b, model.LoaderTaskType(visitType))
}

func (a *App) warnOf(message, what, name, near string) {
	attributes := []any{what, name}
	if near != "" {
		attributes = append(attributes, "did_you_mean", near)
	}
	a.Log.Warn(message, attributes...)
}
