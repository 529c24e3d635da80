package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/yaml11"
	"swh-scheduler/sql"
)

func newTaskAdd(a *app) *cobra.Command {
	policy, priority, nextRun := "recurring", "", dateTime{}
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

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			if err := checkTaskTypes(ctx, cmd, store, "Unknown task name %s.", args[:1]); err != nil {
				return err
			}
			arguments, err := parseArguments(args[1:])
			if err != nil {
				return err
			}
			zone, err := serverZone(ctx, store)
			if err != nil {
				return err
			}
			now := time.Now()
			next := now
			if !nextRun.isZero() {
				next = nextRun.in(zone)
			}
			created, err := store.CreateTasks(ctx, []sql.NewTask{{
				Type: args[0], Arguments: arguments, NextRun: next,
				Policy: scheduler.TaskPolicy(policy), Priority: scheduler.TaskPriority(priority),
			}})
			if err != nil {
				return err
			}
			parts := []string{fmt.Sprintf("Created %d tasks\n", len(created))}
			for _, task := range created {
				text, err := a.formatTask(task, zone, now)
				if err != nil {
					return err
				}
				parts = append(parts, text)
			}
			return a.print(strings.Join(parts, "\n") + "\n")
		})
	})
	return cmd
}

// parseArguments reads a task's arguments: words with a = are keyword arguments,
// the others positional ones; values are YAML.
func parseArguments(words []string) (scheduler.TaskArguments, error) {
	args := []json.RawMessage{}
	kwargs := map[string]json.RawMessage{}
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
			kwargs[key] = value
		} else {
			args = append(args, value)
		}
	}
	argsText, err := plainJSON(args)
	if err != nil {
		return scheduler.TaskArguments{}, err
	}
	kwargsText, err := plainJSON(kwargs)
	return scheduler.TaskArguments{Args: argsText, Kwargs: kwargsText}, err
}

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
		return nil, errors.New("PostgreSQL has no texts with a NUL")
	}
	return value, err
}

// plainJSON is v as JSON without the escapes made for HTML.
func plainJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return buf.Bytes(), err
}
