package rpc

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
	"swh-scheduler/sql/tasks"
)

func setTaskStatus(c *call, change tasks.StatusChange) (none, error) {
	change.Now = c.now
	return none{}, c.store.SetTaskStatus(c, change)
}

// oneOrMoreIntegers is an integer or a list of some.
var oneOrMoreIntegers = unlessFalse(noneIfEmpty(&kind[[]int64]{integers.pythonType, func(f *fields, value any) []int64 {
	if _, several := value.([]any); several {
		return integers.read(f, value)
	}
	return []int64{looseInteger.read(f, value)}
}, integers.write}))

// readyArguments are those of the calls for ready tasks.
type readyArguments struct {
	taskType  string
	timestamp time.Time
	limit     *int // nil: all
}

// defineReady describes one of these calls.
func defineReady(path string, allowed roles, name, description string, read func(*db.Tx, context.Context, string, time.Time, int) ([]model.Task, error)) *method[readyArguments, []model.Task] {
	return define(path, allowed, backend+name, description, func(f *fields, a *readyArguments) {
		required(f, "task_type", looseText, &a.taskType)
		optional(f, "timestamp", looseMoment, &a.timestamp)
		optional(f, "num_tasks", nullable(limit), &a.limit)
	}, manyTasks, func(c *call, a readyArguments) (found []model.Task, err error) {
		if a.limit == nil {
			a.limit = new(all)
		} else if *a.limit == 0 {
			return nil, nil
		}
		// In a transaction, so that too many tasks are not marked.
		err = c.store.InTx(c, func(ctx context.Context, tx *db.Tx) (err error) {
			found, err = read(tx, ctx, a.taskType, c.at(a.timestamp), c.atMost(*a.limit))
			found, err = fewOf(c, "num_tasks", found, err)
			for i := range found { // before they are marked for good
				if err == nil {
					err = unreadable(&found[i])
				}
			}
			return err
		})
		return found, err
	})
}

// unreadable returns an error if a client can't read a task. An answer with such a task is lost as a whole.
func unreadable(t *model.Task) error {
	switch interval := t.CurrentInterval; {
	case interval != nil && postgres.TooLong(*interval):
		return errTooLong(fmt.Sprintf("the current_interval of task %d", t.ID))
	case !bytes.HasPrefix(t.Arguments.Args, []byte("[")):
		return attrsError("AttributeTypeError", fmt.Sprintf("the args of task %d are no list", t.ID))
	case !bytes.HasPrefix(t.Arguments.Kwargs, []byte("{")):
		return attrsError("AttributeTypeError", fmt.Sprintf("the kwargs of task %d are no dict", t.ID))
	}
	return outOfRange(fmt.Sprintf("the next_run of task %d", t.ID), t.NextRun)
}
