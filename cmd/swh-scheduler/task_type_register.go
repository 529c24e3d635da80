package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/scheduler"
)

func newTaskTypeRegister(a *app) *cobra.Command {
	var plugins []string
	var file string
	var workers workerFlags
	cmd := &cobra.Command{
		Use:   "register [OPTIONS]",
		Short: "Register missing task-type entries in the scheduler",
		Long: `Register missing task-type entries in the scheduler: those of the tasks that the
running workers know, or those of a YAML file. Entries that are there stay as they
are; where the name of the Celery task differs, the log says so.

Of a worker's tasks the names are known: the function load_git of swh.loader.git.tasks
gives the task type load-git. All else are defaults, which are those of the Python
command for tasks that say nothing: intervals of 90 days for types that end in -full
and of 2 days for all others. A file can say more:

  load-git:
    backend_name: swh.loader.git.tasks.UpdateGitRepository
    description: Update an origin of type git
    default_interval: 64 days
    min_interval: 12 hours
    max_interval: 64 days
    backoff_factor: 2
    max_queue_length: 5000
    num_retries: 3
    retry_delay: 1 hour`,
		Example: `  swh-scheduler task-type register --plugins loader.git
  swh-scheduler task-type register --file task-types.yml`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&plugins, "plugins", "p", nil, "register the task types of this `PLUGIN`, such as loader.git, of the workers; may be repeated (default all)")
	flags.StringVar(&file, "file", "", "register the task types of this YAML `FILE` (- is standard input), and ask no worker")
	workers.flags(flags)
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		if file != "" && len(plugins) > 0 {
			return usagef(cmd, "'--plugins' and '--file' exclude each other.")
		}
		var types []scheduler.TaskType
		var err error
		if file != "" {
			types, err = a.taskTypesOfFile(cmd, file)
		} else {
			types, err = a.taskTypesOfWorkers(cmd, workers, plugins)
		}
		if err != nil {
			return err
		}
		return a.withBackend(cmd, func(ctx context.Context, b backend) error { return a.ensureTaskTypes(ctx, b, types) })
	})
	return cmd
}

// workerFlags say which workers to ask.
type workerFlags struct {
	timeout float64
	pattern string
}

func (w *workerFlags) flags(flags *pflag.FlagSet) {
	flags.Float64Var(&w.timeout, "timeout", 3, "time to wait for replies of workers, in seconds")
	flags.StringVar(&w.pattern, "pattern", "", "workers to ask: a glob `PATTERN`, or names joined by commas; all if not given")
}

// control makes a remote control of these workers. owner is the command that has
// the flags.
func (w *workerFlags) control(a *app, owner *cobra.Command) (*celery.Control, celery.Destination, error) {
	if w.timeout <= 0 {
		return nil, celery.Destination{}, usagef(owner, "Invalid value for '--timeout': it must be above 0.")
	}
	broker, err := a.broker()
	if err != nil {
		return nil, celery.Destination{}, err
	}
	return celery.NewControl(broker, celery.ControlOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler " + owner.Name()},
		Timeout:           time.Duration(w.timeout * float64(time.Second)),
	}), celery.ParseDestination(w.pattern), nil
}

func (a *app) taskTypesOfFile(cmd *cobra.Command, path string) ([]scheduler.TaskType, error) {
	text, err := readInput(cmd, "--file", path)
	if err != nil {
		return nil, err
	}
	if path == "-" {
		path = "standard input"
	}
	types, warnings, err := config.ReadTaskTypes(path, text)
	for _, w := range warnings {
		a.log.Warn(w.String())
	}
	return types, err
}

func (a *app) taskTypesOfWorkers(cmd *cobra.Command, workers workerFlags, plugins []string) ([]scheduler.TaskType, error) {
	control, to, err := workers.control(a, cmd)
	if err != nil {
		return nil, err
	}
	registered, err := control.Registered(cmd.Context(), to)
	if err != nil {
		return nil, err
	}
	if len(registered) == 0 {
		return nil, errSilence
	}
	byPlugin := map[string][]celery.RegisteredTask{}
	for _, worker := range slices.Sorted(maps.Keys(registered)) {
		for _, task := range registered[worker] {
			plugin := pluginOf(task.Name)
			if task.Function == "" {
				a.log.Warn("the type of a task cannot be told; name it in a file (--file)", "task", task.Name, "worker", worker)
			} else if !slices.Contains(byPlugin[plugin], task) {
				byPlugin[plugin] = append(byPlugin[plugin], task)
			}
		}
	}
	available := slices.Sorted(maps.Keys(byPlugin))
	if len(plugins) == 0 || slices.Equal(plugins, []string{"all"}) {
		plugins = available
	}
	var types []scheduler.TaskType
	var unknown []string
	for _, plugin := range plugins {
		if _, known := byPlugin[plugin]; !known {
			unknown = append(unknown, plugin)
		}
		for _, task := range byPlugin[plugin] {
			t := config.DefaultTaskType(strings.ReplaceAll(task.Function, "_", "-"), task.Name)
			t.Description = "Celery task " + task.Name
			types = append(types, t)
		}
	}
	if unknown != nil {
		problem := "That provided plugin is unknown"
		if len(unknown) > 1 {
			problem = "Those provided plugins are unknown"
		}
		return nil, usagef(cmd, "%s: %s.\nAvailable ones are: %s.", problem, strings.Join(unknown, ", "), strings.Join(available, ", "))
	}
	return types, nil
}

// pluginOf is the name of the plugin that a Celery task is of, by the convention
// of Software Heritage: loader.git for swh.loader.git.tasks.UpdateGitRepository.
func pluginOf(task string) string {
	module := task
	if i := strings.LastIndexByte(task, '.'); i > 0 {
		module = task[:i]
	}
	return strings.TrimPrefix(strings.TrimSuffix(module, ".tasks"), "swh.")
}

// ensureTaskTypes creates the task types that are not there.
func (a *app) ensureTaskTypes(ctx context.Context, b backend, types []scheduler.TaskType) error {
	for _, t := range types {
		current, err := b.TaskType(ctx, t.Type)
		switch {
		case errors.Is(err, scheduler.ErrUnknownTaskType):
			a.log.Info("create task type", "type", t.Type, "backend_name", t.BackendName)
			err = b.CreateTaskType(ctx, t)
		case err == nil && current.BackendName != t.BackendName:
			a.log.Warn("the existing task type has another backend name", "type", t.Type, "existing", current.BackendName, "registered", t.BackendName)
		}
		if err != nil {
			return fmt.Errorf("task type %s: %w", t.Type, err)
		}
	}
	return nil
}
