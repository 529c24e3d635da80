package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/yaml11"
	"swh-scheduler/sql"
)

func newTaskAdd(a *app) *cobra.Command {
	policy, priority, nextRun, output := "recurring", "", dateTime{}, "text"
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] TASK_TYPE_NAME [OPTIONS]...",
		Short: "Schedule one task from arguments",
		Long: `Schedule one task from arguments.

The first argument is the name of the task type. What follows are the task's
positional and keyword arguments, in YAML; keyword arguments are of the form
key=value. A task without --priority is one of the many; those with a priority
are sent by start-runner --with-priority.`,
		Example: `  swh-scheduler task add list-pypi
  swh-scheduler task add list-debian-distribution --policy=oneshot distribution=stretch`,
		Args:                  arguments(true, true, "TASK_TYPE_NAME", "OPTIONS"),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.VarP(choice{&policy, []string{"recurring", "oneshot"}}, "policy", "p", "how often it runs")
	flags.VarP(choice{&priority, []string{"low", "normal", "high"}}, "priority", "P", "its priority (default none)")
	flags.VarP(&nextRun, "next-run", "n", "`DATE` of its first run (default now)")
	outputFlag(flags, &output)

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			if err := checkTaskTypes(ctx, cmd, b, "Unknown task name %s.", args[:1]); err != nil {
				return err
			}
			arguments, err := parseArguments(args[1:])
			if err != nil {
				return err
			}
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			next := time.Now()
			if !nextRun.isZero() {
				next = nextRun.in(zone)
			}
			created, err := b.CreateTasks(ctx, []sql.NewTask{{
				Type: args[0], Arguments: arguments, NextRun: next,
				Policy: scheduler.TaskPolicy(policy), Priority: scheduler.TaskPriority(priority),
			}})
			if err != nil {
				return err
			}
			return a.printCreated(ctx, b, created, output)
		})
	})
	return cmd
}

// parseArguments reads a task's arguments: words with a = are keyword arguments,
// the others positional ones; values are YAML.
func parseArguments(words []string) (scheduler.TaskArguments, error) {
	args := []json.RawMessage{}
	var kwargs dispatch.Kwargs
	for _, word := range words {
		key, text, isKeyword := strings.Cut(word, "=")
		if !isKeyword {
			text = word
		}
		value, err := parseValue(text)
		if err != nil {
			return scheduler.TaskArguments{}, sentencef("Invalid argument: %s (%s)", text, err)
		}
		if isKeyword {
			kwargs.Set(key, value)
		} else {
			args = append(args, value)
		}
	}
	list, err := plainJSON(args)
	return scheduler.TaskArguments{Args: list, Kwargs: kwargs.JSON()}, err
}

var errNUL = errors.New("PostgreSQL has no texts with a NUL")

// parseValue is a YAML text as JSON; nothing at all is an empty text.
func parseValue(text string) (json.RawMessage, error) {
	if text == "" {
		return json.RawMessage(`""`), nil
	}
	root, err := yaml11.Parse([]byte(text))
	if err != nil {
		return nil, oneLine{err}
	}
	value, err := yaml11.JSON(root)
	if err == nil && bytes.Contains(value, []byte(`\u0000`)) {
		return nil, errNUL
	}
	return value, err
}

// plainJSON is v as JSON without the escapes made for HTML.
func plainJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
