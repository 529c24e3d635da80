package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newTaskSchedule(a *app) *cobra.Command {
	var columns []string
	delimiter, output := ",", "text"
	known := []string{"type", "args", "kwargs", "policy", "next_run"}
	cmd := &cobra.Command{
		Use:   "schedule [OPTIONS] FILE",
		Short: "Schedule tasks from a CSV input file",
		Long: `Schedule tasks from a CSV input file, or from standard input if FILE is -.

Its columns, without a header, are type, args, kwargs and next_run, or those named
by --columns:

  type      the task's type, or the name of its Celery task
  args      its arguments, a JSON list (default none)
  kwargs    its keyword arguments, a JSON object (default none)
  policy    recurring or oneshot (default recurring)
  next_run  the date of its first run in ISO 8601, in UTC if it names no zone
            (default now)

Either all tasks of the file are created or none: what is wrong with a line is
said with its number.`,
		Example:               `  swh-scheduler task schedule --columns type --columns kwargs --columns policy --delimiter ';' tasks.csv`,
		Args:                  arguments(false, false, "FILE"),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.VarP(choices{&columns, known}, "columns", "c", "a `COLUMN` of the file; repeat it for each, in their order")
	flags.StringVarP(&delimiter, "delimiter", "d", delimiter, "what separates columns")
	outputFlag(flags, &output)

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		if len(columns) == 0 {
			columns = []string{"type", "args", "kwargs", "next_run"}
		}
		comma, size := utf8.DecodeRuneInString(delimiter)
		if size != len(delimiter) || strings.ContainsAny(delimiter, "\r\n\"") || delimiter == "" {
			return fmt.Errorf("--delimiter: %q is not one character that can separate columns", delimiter)
		}
		text, err := readInput(cmd, "FILE", args[0])
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return fmt.Errorf("%s: is not UTF-8", args[0])
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			types, err := b.TaskTypes(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			tasks, err := readTasks(pytext.ReadCSV(string(text), comma), columns, types, now)
			if err != nil {
				return inFile(args[0], err)
			}
			created, err := b.CreateTasks(ctx, tasks)
			if err != nil {
				return err
			}
			return a.printCreated(ctx, b, created, output)
		})
	})
	return cmd
}

// readInput reads the whole file that is the argument called argument, or
// standard input if that is -.
func readInput(cmd *cobra.Command, argument, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	file, err := openInput(cmd, argument, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// openInput opens the file that is the argument called argument.
func openInput(cmd *cobra.Command, argument, path string) (*os.File, error) {
	file, err := os.Open(path)
	if err == nil {
		if info, statErr := file.Stat(); statErr != nil || !info.IsDir() {
			return file, nil
		}
		_ = file.Close()
		err = syscall.EISDIR
	}
	cause := err
	if e, ok := errors.AsType[*os.PathError](err); ok {
		cause = e.Err
	}
	text := cause.Error()
	return nil, usagef(cmd, "Invalid value for '%s': '%s': %s", argument, path, strings.ToUpper(text[:1])+text[1:])
}

// inFile says of each error which file it is about.
func inFile(path string, err error) error {
	if path == "-" {
		path = "standard input"
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, path+": "+strings.TrimSuffix(line, "\n"))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// mostProblems is how many wrong lines of a file are told of.
const mostProblems = 20

// readTasks makes tasks of a file's records. The error has a line for each line
// of the file that is wrong, up to a number.
func readTasks(records []pytext.CSVRecord, columns []string, types []scheduler.TaskType, now time.Time) ([]sql.NewTask, error) {
	names := map[string]string{} // of Celery tasks and of types
	for _, tt := range types {
		names[tt.BackendName] = tt.Type
	}
	for _, tt := range types {
		if _, taken := names[tt.Type]; !taken {
			names[tt.Type] = tt.Type
		}
	}
	if !slices.Contains(columns, "type") {
		return nil, errors.New("there is no column 'type', which every task needs (--columns)")
	}
	var tasks []sql.NewTask
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

func readTask(fields, columns []string, names map[string]string, now time.Time) (task sql.NewTask, err error) {
	if len(fields) != len(columns) {
		return task, fmt.Errorf("has %d columns, want %d (%s)", len(fields), len(columns), strings.Join(columns, ", "))
	}
	task.NextRun = now
	for i, text := range fields {
		switch columns[i] {
		case "type":
			var known bool
			if task.Type, known = names[text]; !known {
				return task, fmt.Errorf("type: %w: %q", scheduler.ErrUnknownTaskType, text)
			}
		case "args":
			task.Arguments.Args, err = readJSON(text, '[', "list")
		case "kwargs":
			task.Arguments.Kwargs, err = readJSON(text, '{', "object")
		case "policy":
			if task.Policy = scheduler.TaskPolicy(text); task.Policy != scheduler.Recurring && task.Policy != scheduler.Oneshot {
				err = fmt.Errorf("%q is not one of 'recurring', 'oneshot'", text)
			}
		case "next_run":
			task.NextRun, err = parseISO8601(text)
		}
		if err != nil {
			return task, fmt.Errorf("%s: %w", columns[i], err)
		}
	}
	return task, nil
}

// readJSON checks that a text is JSON that begins as it should.
func readJSON(text string, first byte, kind string) (json.RawMessage, error) {
	value := bytes.TrimSpace([]byte(text))
	if !json.Valid(value) || value[0] != first {
		return nil, fmt.Errorf("%q is not a JSON %s", text, kind)
	}
	if bytes.Contains(value, []byte(`\u0000`)) {
		return nil, errNUL
	}
	return value, nil
}

// printCreated prints tasks that were just created.
func (a *app) printCreated(ctx context.Context, b backend, created []scheduler.Task, output string) error {
	if output == "json" {
		return a.printJSON(taskObjects(created))
	}
	zone, err := b.Zone(ctx)
	if err != nil {
		return err
	}
	parts := []string{fmt.Sprintf("Created %d tasks\n", len(created))}
	now := time.Now()
	for _, task := range created {
		text, err := a.formatTask(task, zone, now)
		if err != nil {
			return err
		}
		parts = append(parts, text)
	}
	return a.print(strings.Join(parts, "\n") + "\n")
}
