package taskinput

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pgjson"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/tasks"
)

// mostProblems bounds the reported wrong lines of a file.
const mostProblems = 20

// ReadTasks makes tasks from a file's records. Its error has a line for each wrong line, up to mostProblems.
func ReadTasks(records []pytext.CSVRecord, columns []string, types []model.TaskType, now time.Time) ([]tasks.NewTask, error) {
	names := map[string]string{} // types by their names and by those of Celery tasks, which take precedence
	for _, tt := range types {
		names[tt.Type] = tt.Type
	}
	for _, tt := range types {
		names[tt.BackendName] = tt.Type
	}
	if !slices.Contains(columns, "type") {
		return nil, errors.New("there is no column 'type', which every task needs (--columns)")
	}
	var tasks []tasks.NewTask
	var problems []error
	for _, record := range records {
		task, err := readTask(record.Fields, columns, names, now)
		if err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", record.Line, err))
			if len(problems) == mostProblems {
				break
			}
			continue
		}
		tasks = append(tasks, task)
	}
	if len(problems) > 0 {
		return nil, errors.Join(append(problems, errors.New("no task was created"))...)
	}
	return tasks, nil
}

func readTask(fields, columns []string, names map[string]string, now time.Time) (task tasks.NewTask, err error) {
	// A shorter row leaves out what has a default, as in the Python scheduler; a longer one would lose its rest.
	if len(fields) > len(columns) || len(fields) <= slices.Index(columns, "type") {
		return task, fmt.Errorf("has %d columns, want %d (%s)", len(fields), len(columns), strings.Join(columns, ", "))
	}
	task.NextRun = now
	for i, text := range fields {
		switch columns[i] {
		case "type":
			var known bool
			if task.Type, known = names[text]; !known {
				return task, fmt.Errorf("type: %w: %q", model.ErrUnknownTaskType, text)
			}
		case "args":
			task.Arguments.Args, err = readJSON(text, '[', "list")
		case "kwargs":
			task.Arguments.Kwargs, err = readJSON(text, '{', "object")
		case "policy":
			if task.Policy = model.TaskPolicy(text); task.Policy != model.Recurring && task.Policy != model.Oneshot {
				err = fmt.Errorf("%q is not one of 'recurring', 'oneshot'", text)
			}
		case "next_run":
			task.NextRun, err = pytext.ParseISO8601(text)
		}
		if err != nil {
			return task, fmt.Errorf("%s: %w", columns[i], err)
		}
	}
	return task, nil
}

func readJSON(text string, first byte, kind string) (json.RawMessage, error) {
	value := bytes.TrimSpace([]byte(text))
	if !json.Valid(value) || value[0] != first {
		return nil, fmt.Errorf("%q is not a JSON %s", text, kind)
	}
	if fault := pgjson.Check(value); fault != nil {
		return nil, errors.New(fault.Problem)
	}
	return value, nil
}
