package model

import (
	"context"
	"errors"
	"fmt"
)

// UnknownTaskType is the error for a name that no task type has.
type UnknownTaskType string

func (e UnknownTaskType) Error() string { return fmt.Sprintf("unknown task type: %q", string(e)) }

// TaskTypes looks up a task type by its name. Its error is ErrUnknownTaskType if there is none.
type TaskTypes interface {
	TaskType(ctx context.Context, name string) (TaskType, error)
}

// CheckTaskTypes returns UnknownTaskType for the first unknown name.
func CheckTaskTypes(ctx context.Context, from TaskTypes, names []string) error {
	for _, name := range names {
		_, err := from.TaskType(ctx, name)
		switch {
		case errors.Is(err, ErrUnknownTaskType):
			return UnknownTaskType(name)
		case err != nil:
			return fmt.Errorf("look up task type %s: %w", name, err)
		}
	}
	return nil
}
