package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// DefaultGrace is the default time in which the components of a Group finish work in flight.
const DefaultGrace = 30 * time.Second

// abandonWait is how long a component may take to return after its in-flight context has ended. After that, Run
// returns without it.
const abandonWait = 2 * time.Second

// ErrForced is returned when a component did not stop within the grace period.
var ErrForced = errors.New("stopped by force")

// Component is a part of a daemon that starts and stops with it.
type Component struct {
	Name string
	// Run works until ctx ends. Then it takes on no new work, finishes the work in flight (with the context of
	// InFlight) and returns nil. An error means that the daemon cannot continue. Run may return nil early when its
	// work is done.
	Run func(ctx context.Context) error
}

// Group runs the components of one daemon.
type Group struct {
	Log   *slog.Logger
	Grace time.Duration // bound of the whole stop; 0 means DefaultGrace
}

// Run starts all components together and waits until ctx ends or one of them returns. Then it stops them one after
// another in the order given, each when the one before has returned: list components that fetch work first and those
// that deliver it last. It returns nil after a clean stop, the first error of a component (with its name), or an
// error that wraps ErrForced and names the components that the end of the grace period cut off.
func (g Group) Run(ctx context.Context, components ...Component) error {
	inFlight, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	parts := make([]*part, len(components))
	ended := make(chan struct{}, len(components))
	for i, c := range components {
		parts[i] = start(context.WithValue(inFlight, inFlightKey{}, inFlight), c, ended)
	}
	if len(parts) > 0 {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	return g.stop(parts, abandon)
}

// stop ends the parts in order within the grace period.
func (g Group) stop(parts []*part, abandon context.CancelFunc) error {
	grace := cmp.Or(max(0, g.Grace), DefaultGrace)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for i, p := range parts {
		p.cancel()
		select {
		case <-p.done:
		case <-timer.C:
			return g.force(parts, parts[i:], grace, abandon)
		}
	}
	return firstError(parts)
}

// force ends all components that are left, at once.
func (g Group) force(parts, left []*part, grace time.Duration, abandon context.CancelFunc) error {
	var names []string
	for _, p := range left {
		if !p.returned() {
			names = append(names, p.name)
		}
		p.cancel()
	}
	g.Log.Warn("not stopped in time; abandoning what is in flight", "components", names, "grace", grace)
	abandon()
	last := time.NewTimer(abandonWait)
	defer last.Stop()
	for _, p := range left {
		select {
		case <-p.done:
		case <-last.C:
			return fmt.Errorf("%w: %s still busy after %s", ErrForced, strings.Join(names, ", "), grace+abandonWait)
		}
	}
	return errors.Join(fmt.Errorf("%w: %s not finished within %s", ErrForced, strings.Join(names, ", "), grace), firstError(parts))
}

// part is a started component. err is written before done is closed.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(ctx context.Context, c Component, ended chan<- struct{}) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{name: c.Name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		err := c.Run(ctx)
		if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
			p.err = fmt.Errorf("%s: %w", c.Name, err)
		}
		close(p.done)
		ended <- struct{}{}
	}()
	return p
}

func (p *part) returned() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// firstError returns the error of the first part that has one, in order of stopping: later parts often fail because
// an earlier one did.
func firstError(parts []*part) error {
	for _, p := range parts {
		if p.returned() && p.err != nil {
			return p.err
		}
	}
	return nil
}

// OnAbandon calls do at the end of the Group's grace period, unless stop is called before. It is for work that has a
// time limit of its own after ctx has ended.
func OnAbandon(ctx context.Context, do func()) (stop func() bool) {
	if inFlight, ok := ctx.Value(inFlightKey{}).(context.Context); ok {
		return context.AfterFunc(inFlight, do)
	}
	return func() bool { return false }
}

type inFlightKey struct{}

// InFlight returns the context for work that should be finished after ctx, a component's own context, has ended. It
// ends with the grace period of the Group; outside a Group it is ctx itself.
func InFlight(ctx context.Context) context.Context {
	if inFlight, ok := ctx.Value(inFlightKey{}).(context.Context); ok {
		return inFlight
	}
	return ctx
}
