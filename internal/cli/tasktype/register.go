package tasktype

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

func newTaskTypeRegister(a *command.App) *cobra.Command {
	var plugins []string
	var file string
	var workers command.WorkerFlags
	cmd := &cobra.Command{
		Use:   "register [OPTIONS]",
		Short: "Register missing task-type entries in the scheduler",
		Long: `Register missing task-type entries in the scheduler: those of the tasks that running
workers have registered, or those of a YAML file. Existing entries stay unchanged; the
command logs a warning if the name of the Celery task differs.

The program has a built-in list of the task types of the archive's packages. The command
registers these, and logs the versions of the packages, if no broker is configured or
reached, or no worker replies. It does the same for a PLUGIN that no worker has. With
--pattern it uses only the workers' answers.

Workers reply with the names of their tasks only: the function load_git of
swh.loader.git.tasks becomes the task type load-git. All other fields have the defaults
of the Python command: intervals of 90 days for types that end in -full and of 2 days
for all others. A file can set more:

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
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&plugins, "plugins", "p", nil, "register the task types of this `PLUGIN`, such as loader.git, of the workers; may be repeated (default all)")
	flags.StringVar(&file, "file", "", "register the task types of this YAML `FILE` (- is standard input) instead of the workers'")
	workers.Flags(flags)
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, _ []string) error {
		if err := command.Exclusive(cmd, "plugins", "file"); err != nil {
			return err
		}
		var types []model.TaskType
		var err error
		if file != "" {
			types, err = taskTypesOfFile(a, cmd, file)
		} else {
			types, err = taskTypesOfWorkers(a, cmd, workers, plugins)
		}
		if err != nil {
			return err
		}
		return ensureTaskTypes(ctx, a, b, types)
	})
	return cmd
}

func taskTypesOfFile(a *command.App, cmd *cobra.Command, path string) ([]model.TaskType, error) {
	text, err := command.ReadInput(cmd, "--file", path)
	if err != nil {
		return nil, err
	}
	if path == "-" {
		path = "standard input"
	}
	types, warnings, err := config.ReadTaskTypes(path, text)
	for _, w := range warnings {
		a.Log.Warn(w.String())
	}
	return types, err
}

func taskTypesOfWorkers(a *command.App, cmd *cobra.Command, workers command.WorkerFlags, plugins []string) ([]model.TaskType, error) {
	registered, without, err := registeredTasks(a, cmd, workers)
	if err != nil {
		return nil, err
	}
	byPlugin := map[string][]model.TaskType{}
	for _, worker := range slices.Sorted(maps.Keys(registered)) {
		for _, task := range registered[worker] {
			plugin := pluginOf(task.Name)
			t := described(config.DefaultTaskType(strings.ReplaceAll(task.Function, "_", "-"), task.Name))
			if task.Function == "" {
				a.Log.Warn("the type of a task cannot be told; name it in a file (--file)", "task", task.Name, "worker", worker)
			} else if !slices.ContainsFunc(byPlugin[plugin], sameAs(t)) {
				byPlugin[plugin] = append(byPlugin[plugin], t)
			}
		}
	}
	return typesOfPlugins(a, cmd, byPlugin, without, plugins)
}

// registeredTasks asks workers for their tasks. without is the reason why there are no answers. If --pattern names
// workers, that reason is returned as err instead.
func registeredTasks(a *command.App, cmd *cobra.Command, workers command.WorkerFlags) (tasks map[string][]celery.RegisteredTask, without, err error) {
	certain := cmd.Flags().Changed("pattern")
	if a.Config.Celery.TaskBroker == "" && !certain {
		return nil, errors.New("the configuration names no broker (celery.task_broker)"), nil
	}
	control, to, err := workers.Control(a, cmd)
	if err != nil {
		return nil, nil, err
	}
	tasks, err = control.Registered(cmd.Context(), to)
	if err == nil && len(tasks) == 0 {
		err = command.ErrNoReply
	}
	if err != nil && !certain && cmd.Context().Err() == nil {
		return nil, err, nil
	}
	return tasks, nil, err
}

// typesOfPlugins returns the task types of plugins; none named is all. The built-in list replaces what workers lack:
// all task types if without is not nil, else those of the plugins named.
func typesOfPlugins(a *command.App, cmd *cobra.Command, byPlugin map[string][]model.TaskType, without error, plugins []string) ([]model.TaskType, error) {
	all := len(plugins) == 0 || slices.Equal(plugins, []string{"all"})
	if !cmd.Flags().Changed("pattern") {
		known, packages, err := knownTaskTypes()
		if err != nil {
			return nil, err
		}
		for plugin, types := range known {
			if _, has := byPlugin[plugin]; !has && (without != nil || slices.Contains(plugins, plugin)) {
				byPlugin[plugin] = types
				if without == nil {
					a.Log.Warn("no worker has this plugin; registering the task types that this program contains", "plugin", plugin, "of", packages)
				}
			}
		}
		if without != nil {
			a.Log.Warn("registering the task types that this program contains, as workers named none", "because", pytext.OneLine(without), "of", packages)
		}
	}
	available := slices.Sorted(maps.Keys(byPlugin))
	if all {
		plugins = available
	}
	var types []model.TaskType
	var unknown []string
	for _, plugin := range plugins {
		if _, known := byPlugin[plugin]; !known {
			unknown = append(unknown, plugin)
		}
		for _, t := range byPlugin[plugin] {
			if !slices.ContainsFunc(types, sameAs(t)) { // two plugins may share a module
				types = append(types, t)
			}
		}
	}
	if unknown != nil {
		problem := "That provided plugin is unknown"
		if len(unknown) > 1 {
			problem = "Those provided plugins are unknown"
		}
		return nil, command.Usagef(cmd, "%s: %s.\nAvailable ones are: %s.", problem, strings.Join(unknown, ", "), strings.Join(available, ", "))
	}
	return types, nil
}

// sameAs returns a function that reports whether a task type has the name and the Celery task of t.
func sameAs(t model.TaskType) func(model.TaskType) bool {
	return func(other model.TaskType) bool { return other.Type == t.Type && other.BackendName == t.BackendName }
}

// pluginOf returns the plugin of a Celery task by Software Heritage's convention:
// loader.git for swh.loader.git.tasks.UpdateGitRepository.
func pluginOf(task string) string {
	module := task
	if i := strings.LastIndexByte(task, '.'); i > 0 {
		module = task[:i]
	}
	return strings.TrimPrefix(strings.TrimSuffix(module, ".tasks"), "swh.")
}

func ensureTaskTypes(ctx context.Context, a *command.App, b command.Scheduler, types []model.TaskType) error {
	for _, t := range types {
		current, err := b.TaskType(ctx, t.Type)
		switch {
		case errors.Is(err, model.ErrUnknownTaskType):
			a.Log.Info("create task type", "type", t.Type, "backend_name", t.BackendName)
			err = b.CreateTaskType(ctx, t)
		case err == nil && current.BackendName != t.BackendName:
			a.Log.Warn("the existing task type has another backend name", "type", t.Type, "existing", current.BackendName, "registered", t.BackendName)
		}
		if err != nil {
			return fmt.Errorf("task type %s: %w", t.Type, err)
		}
	}
	return nil
}
