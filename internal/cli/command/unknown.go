package command

import (
	"context"
	"slices"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
)

// WarnOfTypes warns of task types that don't exist, after a command found nothing. Standard output stays the Python
// scheduler's.
func (a *App) WarnOfTypes(ctx context.Context, b Scheduler, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	all, err := b.TaskTypes(ctx)
	if err != nil {
		return err
	}
	known := make([]string, len(all))
	for i, t := range all {
		known[i] = t.Type
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			a.warnOf("there is no task type of this name", "task_type", name, config.Nearest(name, known))
		}
	}
	return nil
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
