package task

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/taskinput"
	"swh-scheduler/sql/tasks"
)

// tasksAtOnce is the number of tasks created in one transaction.
const tasksAtOnce = 1000

func newTaskScheduleOrigins(a *command.App) *cobra.Command {
	var from originSource
	var batchSize, limit int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "schedule_origins [OPTIONS] TYPE [OPTIONS]...",
		Short: "Schedules tasks for origins that are already known",
		Long: `Schedules tasks for origins that are already known. The origins come from a file with a
URL on each line, or from the archive's storage. The first argument is the name of the
task type. Further ones are keyword arguments of the tasks in the form key=value, where
value is in YAML format.`,
		Example: `  swh-scheduler task schedule_origins index-origin-metadata --storage-url http://storage.example:5002/
  swh-scheduler task schedule_origins index-origin-metadata --file urls.txt`,
		Args: command.Args("TYPE", "[OPTIONS]..."),
	}
	flags := cmd.Flags()
	flags.IntVarP(&batchSize, "batch-size", "b", 10, "number of origins per task")
	command.PythonName(flags, "batch-size", "origin_batch_size")
	command.Must(flags, "batch-size", func() bool { return batchSize > 0 }, "is not above 0")
	flags.StringVar(&from.pageToken, "page-token", "0", "begin with the storage's origins after this page `TOKEN`")
	flags.IntVar(&limit, "limit", 0, "most origins to schedule tasks for (default all)")
	command.Must(flags, "limit", func() bool { return limit >= 0 }, "is negative")
	flags.StringVarP(&from.storage, "storage-url", "g", "", "`URL` of the storage's RPC server")
	flags.StringVarP(&from.file, "file", "f", "", "`FILE` of URLs, one a line; - is standard input")
	command.Pair(flags, &dryRun, "dry-run", "", "no-dry-run", "only print what would be scheduled", "schedule (default)")

	cmd.RunE = a.Configured(func(cmd *cobra.Command, args []string) error {
		if (from.storage == "") == (from.file == "") {
			return command.Usagef(cmd, "Name either a file of URLs with '--file' or the archive's storage with '--storage-url'.")
		}
		extra, err := taskinput.ParseArguments(args[1:])
		if err != nil {
			return err
		}
		if string(extra.Args) != "[]" {
			return pytext.Sentence("Only keywords arguments are allowed.")
		}
		urls, done, err := from.urls(a, cmd)
		if err != nil {
			return err
		}
		defer done()
		s := originScheduler{app: a, taskType: args[0], kwargs: extra.Kwargs, batchSize: batchSize, limit: limit}
		if dryRun {
			return s.run(cmd.Context(), nil, urls)
		}
		return a.WithScheduler(cmd, func(ctx context.Context, b command.Scheduler) error { return s.run(ctx, b, urls) })
	})
	return cmd
}

type originSource struct{ storage, pageToken, file string }

// urls iterates over the URLs; done releases their source.
func (o originSource) urls(a *command.App, cmd *cobra.Command) (urls iter.Seq2[string, error], done func(), err error) {
	if o.file == "" {
		client, err := rpc.NewClient(o.storage)
		if err != nil {
			return nil, nil, fmt.Errorf("--storage-url: %w", err)
		}
		return o.fromStorage(cmd.Context(), a, client), client.Close, nil
	}
	file, err := command.OpenInput(cmd, "--file", o.file)
	if err != nil {
		return nil, nil, err
	}
	return taskinput.URLs(file), func() { _ = file.Close() }, nil
}

// fromStorage reads the storage's pages. It prints each page's token, from which an
// interrupted run can be continued.
func (o originSource) fromStorage(ctx context.Context, a *command.App, storage *rpc.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for token := o.pageToken; ; {
			page, next, err := storage.StorageOrigins(ctx, token)
			if err != nil {
				yield("", err)
				return
			}
			for _, url := range page {
				if !yield(url, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
			if err := a.Print("page_token: " + token + "\n\n"); err != nil {
				yield("", err)
				return
			}
		}
	}
}

// originScheduler makes tasks of batches of URLs.
type originScheduler struct {
	app       *command.App
	taskType  string
	kwargs    json.RawMessage
	batchSize int
	limit     int // of URLs; 0: none

	urls, tasks int // so far
}

// run creates the tasks, or only counts them if b is nil.
func (s *originScheduler) run(ctx context.Context, b command.Scheduler, urls iter.Seq2[string, error]) error {
	bar := s.app.ProgressIfPiped("scheduling origins", s.limit)
	defer bar.Stop()
	var made []tasks.NewTask
	var batch []string
	// end makes a task of the batch, and creates the tasks if there are enough of them.
	end := func(enough int) error {
		if len(batch) > 0 {
			list, err := pytext.PlainJSON([]any{batch})
			if err != nil {
				return err
			}
			made = append(made, tasks.NewTask{
				Type: s.taskType, Policy: model.Oneshot, NextRun: time.Now(),
				Arguments: model.TaskArguments{Args: list, Kwargs: s.kwargs},
			})
			batch = nil
		}
		if len(made) < enough {
			return nil
		}
		if b != nil {
			if _, err := b.CreateTasks(ctx, made); err != nil {
				return err
			}
		}
		s.tasks += len(made)
		made = made[:0]
		return s.app.Print(fmt.Sprintf("Scheduled %d tasks (%d origins).\n", s.tasks, s.urls))
	}
	for url, err := range urls {
		if err != nil {
			return err
		}
		bar.Add(1)
		s.urls++
		if batch = append(batch, url); len(batch) == s.batchSize {
			if err := end(tasksAtOnce); err != nil {
				return err
			}
		}
		if s.urls == s.limit {
			break
		}
	}
	if err := end(1); err != nil {
		return err
	}
	if s.tasks == 0 {
		return s.app.Print("Nothing to do (no origin metadata matched the criteria).\n")
	}
	return s.app.Print("Done.\n")
}
