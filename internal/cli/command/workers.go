package command

import (
	"errors"
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
	flags.StringVar(&w.pattern, "pattern", "", "workers to ask: a glob `PATTERN`, or names joined by commas (default all)")
}

// Control makes a remote control of these workers. owner is the command with the flags.
func (w *WorkerFlags) Control(a *App, owner *cobra.Command) (*celery.Control, celery.Destination, error) {
	if w.timeout <= 0 {
		return nil, celery.Destination{}, Usagef(owner, "Invalid value for '--timeout': it must be above 0.")
	}
	broker, err := a.Config.Broker()
	if err != nil {
		return nil, celery.Destination{}, err
	}
	return celery.NewControl(broker, celery.ControlOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler " + owner.Name()},
		Timeout:           time.Duration(w.timeout * float64(time.Second)),
	}), celery.ParseDestination(w.pattern), nil
}

// ErrSilence is the error of a command that no worker replied to.
var ErrSilence = errors.New("no worker replied")
