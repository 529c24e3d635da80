package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// tasksAtOnce is how many tasks are created in one transaction.
const tasksAtOnce = 1000

func newTaskScheduleOrigins(a *app) *cobra.Command {
	var (
		from             originSource
		batchSize, limit int
		dryRun           bool
	)
	cmd := &cobra.Command{
		Use:   "schedule_origins [OPTIONS] TYPE [OPTIONS]...",
		Short: "Schedules tasks for origins that are already known",
		Long: `Schedules tasks for origins that are already known: those of a file, a URL a line,
or those of the archive's storage. The first argument is the name of the task type,
further ones are keyword arguments of the tasks in the form key=value, where value
is in YAML format.`,
		Example: `  swh-scheduler task schedule_origins index-origin-metadata --storage-url http://storage.example:5002/
  swh-scheduler task schedule_origins index-origin-metadata --file urls.txt`,
		Args:                  arguments(true, true, "TYPE", "OPTIONS"),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.IntVarP(&batchSize, "batch-size", "b", 10, "number of origins per task")
	peerName(flags, "batch-size", "origin_batch_size")
	flags.StringVar(&from.pageToken, "page-token", "0", "begin with the storage's origins after this page `TOKEN`")
	flags.IntVar(&limit, "limit", 0, "most origins to schedule tasks for (default all)")
	flags.StringVarP(&from.storage, "storage-url", "g", "", "`URL` of the storage's RPC server")
	flags.StringVarP(&from.file, "file", "f", "", "`FILE` of URLs, one a line; - is standard input")
	pair(flags, &dryRun, "dry-run", "no-dry-run", "say only what would be scheduled", "schedule (default)")

	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		switch {
		case batchSize < 1:
			return usagef(cmd, "Invalid value for '--batch-size' / '-b': %d is not above 0.", batchSize)
		case limit < 0:
			return usagef(cmd, "Invalid value for '--limit': %d is negative.", limit)
		case (from.storage == "") == (from.file == ""):
			return usagef(cmd, "Name either a file of URLs with '--file' or the archive's storage with '--storage-url'.")
		}
		extra, err := parseArguments(args[1:])
		if err != nil {
			return err
		}
		if string(extra.Args) != "[]" {
			return sentence("Only keywords arguments are allowed.")
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
		return a.withBackend(cmd, func(ctx context.Context, b backend) error { return s.run(ctx, b, urls) })
	})
	return cmd
}

// originSource says where URLs come from.
type originSource struct{ storage, pageToken, file string }

// urls are the URLs, read as they are wanted. done ends the reading.
func (o originSource) urls(a *app, cmd *cobra.Command) (urls iter.Seq2[string, error], done func(), err error) {
	switch o.file {
	case "":
		client, err := rpc.NewClient(o.storage)
		if err != nil {
			return nil, nil, fmt.Errorf("--storage-url: %w", err)
		}
		return o.fromStorage(cmd.Context(), a, client), client.Close, nil
	case "-":
		return fromLines(cmd.InOrStdin()), func() {}, nil
	}
	file, err := openInput(cmd, "--file", o.file)
	if err != nil {
		return nil, nil, err
	}
	return fromLines(file), func() { _ = file.Close() }, nil
}

// fromStorage goes through the storage's pages. It prints each page's token, with
// which an interrupted run goes on.
func (o originSource) fromStorage(ctx context.Context, a *app, storage *rpc.Client) iter.Seq2[string, error] {
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
			if err := a.print("page_token: " + token + "\n\n"); err != nil {
				yield("", err)
				return
			}
		}
	}
}

// fromLines reads a URL a line; blank lines are passed over.
func fromLines(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		const longest = 1 << 20
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, longest)
		number := 0
		for lines.Scan() {
			number++
			url := strings.TrimSpace(lines.Text())
			if url != "" && !yield(url, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield("", fmt.Errorf("line %d of the URLs: %w", number+1, err))
		}
	}
}

// originScheduler makes tasks of URLs, a number of them in each.
type originScheduler struct {
	app       *app
	taskType  string
	kwargs    json.RawMessage
	batchSize int
	limit     int // of URLs; 0: none

	urls, tasks int // so far
}

// run creates the tasks, or without a backend only counts them.
func (s *originScheduler) run(ctx context.Context, b backend, urls iter.Seq2[string, error]) error {
	bar := s.app.progressBeside("scheduling origins", s.limit)
	defer bar.stop()
	var tasks []sql.NewTask
	var batch []string
	flush := func(least int) error {
		if len(tasks) < least {
			return nil
		}
		if err := s.create(ctx, b, tasks); err != nil {
			return err
		}
		tasks = tasks[:0]
		return nil
	}
	end := func() error {
		list, err := plainJSON([]any{batch})
		if err != nil {
			return err
		}
		tasks = append(tasks, sql.NewTask{
			Type: s.taskType, Policy: scheduler.Oneshot, NextRun: time.Now(),
			Arguments: scheduler.TaskArguments{Args: list, Kwargs: s.kwargs},
		})
		batch = nil
		return flush(tasksAtOnce)
	}
	for url, err := range urls {
		if err != nil {
			return err
		}
		bar.add(1)
		s.urls++
		if batch = append(batch, url); len(batch) == s.batchSize {
			if err := end(); err != nil {
				return err
			}
		}
		if s.urls == s.limit {
			break
		}
	}
	if len(batch) > 0 {
		if err := end(); err != nil {
			return err
		}
	}
	if err := flush(1); err != nil {
		return err
	}
	if s.tasks == 0 {
		return s.app.print("Nothing to do (no origin metadata matched the criteria).\n")
	}
	return s.app.print("Done.\n")
}

func (s *originScheduler) create(ctx context.Context, b backend, tasks []sql.NewTask) error {
	if b != nil {
		if _, err := b.CreateTasks(ctx, tasks); err != nil {
			return err
		}
	}
	s.tasks += len(tasks)
	return s.app.print(fmt.Sprintf("Scheduled %d tasks (%d origins).\n", s.tasks, s.urls))
}
