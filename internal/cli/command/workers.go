package command

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
)

type WorkerFlags struct {
	timeout float64
	pattern string
}

func (w *WorkerFlags) Flags(flags *pflag.FlagSet) {
	flags.Float64Var(&w.timeout, "timeout", 3, "time to wait for replies of workers, in seconds")
	Must(flags, "timeout", func() bool { return w.timeout > 0 }, "is not above 0")
	flags.StringVar(&w.pattern, "pattern", "", "workers to ask: a glob `PATTERN`, or names joined by commas (default all)")
}

// Control makes a remote control of these workers. owner is the command with the flags.
func (w *WorkerFlags) Control(a *App, owner *cobra.Command) (*celery.Control, celery.Destination, error) {
	broker, err := a.Config.Broker()
	if err != nil {
		return nil, celery.Destination{}, err
	}
	return celery.NewControl(broker, celery.ControlOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler " + owner.Name()},
		Timeout:           time.Duration(w.timeout * float64(time.Second)),
	}), celery.ParseDestination(w.pattern), nil
}

// Inspector makes an inspector of the broker's queues, whose connections have this name.
func (a *App) Inspector(broker celery.Broker, name string) *celery.QueueInspector {
	return celery.NewQueueInspector(broker, string(a.Config.RabbitMQ.ManagementURL), celery.InspectorOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: name}, Logger: a.Log, StatsAge: a.Config.RabbitMQ.StatsAge,
	})
}

// ErrNoReply is the error of a command that no worker replied to.
var ErrNoReply = errors.New("no worker replied")

// RevokeFlags are the options of commands that make workers drop tasks.
type RevokeFlags struct{ how celery.Revocation }

// AboutTerminate is the part of a command's help about --terminate.
const AboutTerminate = `A running task goes on, unless --terminate is given. WARNING: --terminate kills the
process that runs the task. By the time the signal arrives, the process may have begun
another task, which is then killed instead.`

func (r *RevokeFlags) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&r.how.Terminate, "terminate", false, "kill the process that runs a task, if it runs (see the warning above)")
	r.how.Signal = "SIGTERM"
	flags.Var(Choice(&r.how.Signal, "SIGTERM", "SIGKILL"), "signal", "the signal that --terminate sends")
}

// Terminate reports whether processes of running tasks are killed.
func (r *RevokeFlags) Terminate() bool { return r.how.Terminate }

// Revoke makes workers drop the messages with these Celery ids, and prints the workers' answers.
func (r *RevokeFlags) Revoke(ctx context.Context, a *App, c *celery.Control, to celery.Destination, ids []string) error {
	if r.how.Terminate {
		a.Log.Warn("--terminate kills the processes that run these tasks; one that has begun another task by then loses that", "signal", r.how.Signal)
	}
	answers, err := c.Revoke(ctx, to, ids, r.how)
	if err == nil && len(answers) == 0 {
		err = ErrNoReply
	}
	var b strings.Builder
	for _, worker := range slices.Sorted(maps.Keys(answers)) {
		fmt.Fprintf(&b, "%s: %s\n", a.Line(worker), answers[worker])
	}
	if printErr := a.Print(b.String()); err == nil {
		err = printErr
	}
	return err
}
