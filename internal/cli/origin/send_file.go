package origin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/taskinput"
	"swh-scheduler/sql/db"
)

const (
	fileBatch   = 1000    // lines that are read and sent together
	longestLine = 1 << 20 // in bytes
)

// fileOptions are the options of the command.
type fileOptions struct {
	name                     string   // of the task type, or a longer name (see taskTypeOrShorter)
	arguments                []string // of each task
	prefix                   string
	threshold, limit, waitIn int64
	dryRun, debug            bool
}

func newSendFromFile(a *command.App) *cobra.Command {
	var o fileOptions
	cmd := &cobra.Command{
		Use:   "send-origins-from-file-to-celery [OPTIONS] TASK_TYPE [FILE_INPUT] [OPTIONS]...",
		Short: "Send origins directly from file/stdin to celery",
		Long: `Send origins directly from a file to celery. The command refills the queue of the task
type up to the threshold until the end of the file. It fills a queue with lanes up to
the lanes' slots instead.

TASK_TYPE is a task type, or a name that begins with one (load-git-large). Each line of
FILE_INPUT is an origin: its URL, or the loader's arguments in columns separated by
blanks. Without FILE_INPUT, or with -, the command reads standard input. Each task gets
the OPTIONS, of the form key=value with values in YAML, as arguments.`,
		Example: `  grep gitlab urls.txt | swh-scheduler origin send-origins-from-file-to-celery load-git-large -`,
		Args:    command.Args("TASK_TYPE", "[OPTIONS]..."),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.prefix, "queue-name-prefix", "", "`PREFIX` of a separate queue for these origins: PREFIX:task name")
	flags.Int64Var(&o.threshold, "threshold", 1000, "maximum length of the queue; 0 for the limit of the task type")
	flags.Int64Var(&o.limit, "limit", -1, "maximum number of origins to send (default all)")
	flags.Lookup("limit").DefValue = "0"
	command.Must(flags, "limit", func() bool { return o.limit >= 0 }, "is negative")
	flags.Int64Var(&o.waitIn, "waiting-period", 10, "time between two checks of a full queue, in seconds")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print only the messages to send")
	flags.BoolVar(&o.debug, "debug", false, "print extra messages")

	cmd.RunE = a.OnStore(func(ctx context.Context, cmd *cobra.Command, store *db.Store, args []string) error {
		path := "-"
		if len(args) > 1 {
			path = args[1]
		}
		o.name, o.arguments = args[0], args[min(2, len(args)):]
		input, err := command.OpenInput(cmd, "FILE_INPUT", path)
		if err != nil {
			return err
		}
		defer func() { _ = input.Close() }()
		return o.send(ctx, a, cmd, store, input)
	})
	return cmd
}

// send sends the origins of input.
func (o fileOptions) send(ctx context.Context, a *command.App, cmd *cobra.Command, store *db.Store, input io.Reader) error {
	tt, err := taskTypeOrShorter(ctx, store, o.name)
	if errors.Is(err, model.ErrUnknownTaskType) {
		return command.Usagef(cmd, "Could not find scheduler <%s> task type", o.name)
	}
	if err != nil {
		return err
	}
	extra, err := taskinput.ParseArguments(o.arguments)
	if err != nil {
		return err
	}
	form, err := taskinput.FormOf(o.name, extra.Kwargs)
	if err != nil {
		return err
	}
	f := &fileSender{fileOptions: o, app: a, taskType: tt, queue: tt.BackendName, args: extra.Args, form: form, left: o.limit}
	if o.prefix != "" {
		f.queue = o.prefix + ":" + tt.BackendName
	}
	if o.threshold == 0 && tt.MaxQueueLength != nil {
		f.threshold = *tt.MaxQueueLength
	}
	if err := f.introduce(extra); err != nil {
		return err
	}
	if o.dryRun {
		return f.run(ctx, input)
	}
	var stop func() error
	if f.sender, stop, err = send.NewSender(ctx, a.Sending(cmd), store); err != nil {
		return err
	}
	return errors.Join(f.run(ctx, input), stop())
}

// taskTypeOrShorter finds the task type of a name, or of the longest part of it before a
// hyphen: load-git for load-git-large.
func taskTypeOrShorter(ctx context.Context, from model.TaskTypes, name string) (model.TaskType, error) {
	for {
		tt, err := from.TaskType(ctx, name)
		i := strings.LastIndexByte(name, '-')
		if !errors.Is(err, model.ErrUnknownTaskType) || i < 0 {
			return tt, err
		}
		name = name[:i]
	}
}

type fileSender struct {
	fileOptions
	app      *command.App
	sender   *send.Sender // unless dryRun
	taskType model.TaskType
	queue    string
	args     json.RawMessage
	form     taskinput.LineForm
	left     int64 // of limit; below 0: no limit
}

func (f *fileSender) introduce(extra model.TaskArguments) error {
	if !f.debug {
		return nil
	}
	args, err := pytext.Repr(extra.Args)
	if err != nil {
		return err
	}
	kwargs, err := pytext.Repr(extra.Kwargs)
	if err != nil {
		return err
	}
	return f.app.Print(fmt.Sprintf("Scheduler task information: %s\nDestination queue: %s\nTask extra_args: %s\ntask Extra_kwargs: %s\n",
		taskTypeRepr(f.taskType), f.queue, args, kwargs))
}

func (f *fileSender) run(ctx context.Context, input io.Reader) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longestLine)
	number := 0 // of the line
	bar := f.app.ProgressIfPiped("sending origins", 0)
	defer bar.Stop()
	for ended := false; !ended && f.left != 0; {
		var batch []celery.TaskMessage
		for len(batch) < fileBatch && f.left != 0 && !ended {
			if ended = !lines.Scan(); ended {
				break
			}
			number++
			fields := strings.Fields(lines.Text())
			if len(fields) == 0 {
				continue
			}
			if !utf8.ValidString(lines.Text()) {
				return fmt.Errorf("line %d is not UTF-8", number)
			}
			kwargs, err := f.form.Kwargs(fields)
			if err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			batch = append(batch, celery.TaskMessage{ID: uuid.NewString(), Name: f.taskType.BackendName, Args: f.args, Kwargs: kwargs})
			f.left--
		}
		if err := f.sendBatch(ctx, batch, bar); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	return nil
}

// sendBatch sends messages as slots of the queue become free.
func (f *fileSender) sendBatch(ctx context.Context, batch []celery.TaskMessage, bar *command.Bar) error {
	if f.debug {
		if err := f.app.Print(fmt.Sprintf("Nb tasks to send : %d\n", len(batch))); err != nil {
			return err
		}
		for _, m := range batch {
			kwargs, err := pytext.Repr(m.Kwargs)
			if err != nil {
				return err
			}
			if err := f.app.Print(fmt.Sprintf("Task: {'args': [], 'kwargs': %s}\n", kwargs)); err != nil {
				return err
			}
		}
	}
	if f.left == 0 {
		if err := f.app.Print(fmt.Sprintf("Limit %d messages specified reached, stopping.\n", f.limit)); err != nil {
			return err
		}
	}
	if f.dryRun {
		return f.print("** DRY-RUN ** Call app.send_task with: ", batch)
	}
	for len(batch) > 0 {
		n, err := f.sender.Messages(ctx, f.taskType, f.queue, f.threshold, batch)
		if err := errors.Join(f.print("", batch[:n]), err); err != nil {
			return err
		}
		bar.Add(n)
		if batch = batch[n:]; len(batch) == 0 {
			return nil
		}
		f.app.Log.Info("the queue is full", "queue", f.queue, "left", len(batch))
		if err := service.Sleep(ctx, time.Duration(f.waitIn)*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// print prints messages in the Python scheduler's form.
func (f *fileSender) print(before string, messages []celery.TaskMessage) error {
	var b strings.Builder
	for _, m := range messages {
		args, err := pytext.TupleRepr(m.Args)
		if err != nil {
			return err
		}
		kwargs, err := pytext.Repr(m.Kwargs)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s{'name': %s, 'task_id': '%s', 'args': %s, 'kwargs': %s, 'queue': %s}\n",
			before, pytext.String(m.Name), m.ID, args, kwargs, pytext.String(f.queue))
	}
	return f.app.Print(b.String())
}

func taskTypeRepr(t model.TaskType) string {
	whole := func(i int64) string { return fmt.Sprint(i) }
	return fmt.Sprintf("TaskType(type=%s, description=%s, backend_name=%s, default_interval=%s, min_interval=%s, max_interval=%s, backoff_factor=%s, max_queue_length=%s, num_retries=%s, retry_delay=%s)",
		pytext.String(t.Type), pytext.String(t.Description), pytext.String(t.BackendName),
		pytext.OrNone(t.DefaultInterval, pytext.TimedeltaRepr), pytext.OrNone(t.MinInterval, pytext.TimedeltaRepr), pytext.OrNone(t.MaxInterval, pytext.TimedeltaRepr),
		pytext.OrNone(t.BackoffFactor, pytext.Float), pytext.OrNone(t.MaxQueueLength, whole), pytext.OrNone(t.NumRetries, whole), pytext.OrNone(t.RetryDelay, pytext.TimedeltaRepr))
}
