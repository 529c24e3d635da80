package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

const (
	// keepLanesPeriod is how often a LaneKeeper looks at its lines, if nothing
	// wakes it: as often as slots are counted anew at the broker.
	keepLanesPeriod = 5 * time.Second

	// tidyLanesPeriod is how often it looks for work that is not heard of.
	tidyLanesPeriod = time.Minute
)

// LaneKeeper sends what waits in the lines of lanes as slots become free, so that
// work whose time was over in one lane goes on in the next at once, whatever claims
// wait for. It gives up work that is not heard of any more, sends what is left in
// lines that the configuration no longer has, and measures.
type LaneKeeper struct {
	LaneKeeperOptions
	tidied  time.Time
	metrics laneMetrics
}

// LaneKeeperOptions configure a LaneKeeper.
type LaneKeeperOptions struct {
	Store   *sql.Store
	Slots   *Slots
	Lengths QueueLengths
	Log     *slog.Logger
	Reg     prometheus.Registerer

	// Queues says which queues have lanes now.
	Queues func(ctx context.Context) ([]Queue, error)
	// Home says where the work of a line goes that has no lanes any more.
	Home func(ctx context.Context, line string) (Queue, error)
	// Listen, if not nil, calls wake when work came into a line, until ctx ends or it
	// fails.
	Listen func(ctx context.Context, wake func()) error
}

type laneMetrics struct {
	waiting, sent, running, slots  *prometheus.GaugeVec
	ended                          *prometheus.GaugeVec
	timedOut, wait, wrong, givenUp *prometheus.GaugeVec
}

// NewLaneKeeper makes a LaneKeeper; its gauges are registered on o.Reg.
func NewLaneKeeper(o LaneKeeperOptions) *LaneKeeper {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"line", "lane"}, labels...))
		o.Reg.MustRegister(g)
		return g
	}
	return &LaneKeeper{LaneKeeperOptions: o, metrics: laneMetrics{
		waiting:  gauge("swh_scheduler_lane_waiting", "Work that waits in the line of a lane, not tried before or timed out in one before.", "kind"),
		sent:     gauge("swh_scheduler_lane_sent", "Work in a lane's queue, on the way there, or running."),
		running:  gauge("swh_scheduler_lane_running", "Work of a lane that is known to have begun."),
		slots:    gauge("swh_scheduler_lane_slots", "How many messages a lane's queue may hold, as configured."),
		ended:    gauge("swh_scheduler_lane_ended_last_hour", "Work that ended in a lane in the last hour, in its time or by the usual rules for failures."),
		timedOut: gauge("swh_scheduler_lane_timeouts_last_hour", "Work whose time was over in a lane in the last hour, by what became of it: moved to the next lane, or failed.", "outcome"),
		wait:     gauge("swh_scheduler_lane_wait_seconds", "Time from the claim to the start of the first try, of those that began in a lane in the last hour.", "quantile"),
		wrong:    gauge("swh_scheduler_lane_wrong_predictions_last_hour", "Work that ended in the last hour and was sent to the wrong lane: quick_sent_slow, slow_sent_express.", "kind"),
		givenUp:  gauge("swh_scheduler_lane_unheard_last_hour", "Work of a lane that was given up in the last hour, as nothing was heard of it."),
	}}
}

// Run keeps lanes until ctx ends.
func (k *LaneKeeper) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	var listener sync.WaitGroup
	defer listener.Wait()
	if k.Listen != nil {
		listener.Go(func() { daemon.Listen(ctx, k.Log, k.Listen, wake) })
	}
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) { return daemon.Result{}, k.RunOnce(ctx, time.Now()) },
		Period:  keepLanesPeriod, Wake: wake,
		Service: daemon.NewService(k.Log, "what keeping lanes needs"),
	}
	return loop.Run(ctx)
}

// RunOnce sends what there are slots for, and once a minute tidies up.
func (k *LaneKeeper) RunOnce(ctx context.Context, now time.Time) error {
	queues, err := k.Queues(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, q := range queues {
		if _, err := k.Slots.Claim(ctx, q, nil); err != nil {
			failed = append(failed, fmt.Errorf("lanes of %q: %w", q.Lanes.Line, err))
		}
	}
	if now.Sub(k.tidied) < tidyLanesPeriod {
		return errors.Join(failed...)
	}
	failed = append(failed, k.giveUp(ctx, now), k.release(ctx, queues), k.Store.ForgetLanes(ctx, now, now.Add(-unheardAfter)))
	for _, q := range queues {
		failed = append(failed, k.measure(ctx, q.Lanes, now))
	}
	err = errors.Join(failed...)
	if err == nil {
		k.tidied = now
	}
	return err
}

// giveUp forgets what is not heard of, also of lanes that are not configured any more.
func (k *LaneKeeper) giveUp(ctx context.Context, now time.Time) error {
	underway, err := k.Store.LanesUnderway(ctx)
	if err != nil {
		return err
	}
	for _, l := range underway {
		waiting, err := messagesAtMost(ctx, k.Store, k.Lengths, l.Queue, now)
		if err != nil {
			return err
		}
		n, err := k.Store.GiveUpLaneWork(ctx, l, waiting, now, now.Add(-unheardAfter), now.Add(-lostAfter))
		if err != nil {
			return err
		}
		if n > 0 {
			k.Log.Warn("work of a lane is not heard of any more", "line", l.Line, "lane", l.Lane, "pieces", n)
		}
	}
	return nil
}

func (k *LaneKeeper) measure(ctx context.Context, l *Lanes, now time.Time) error {
	states, err := k.Store.LaneStates(ctx, l.Line, len(l.Lanes))
	if err != nil {
		return err
	}
	history, err := k.Store.LaneHistory(ctx, l.Line, now.Add(-time.Hour))
	if err != nil {
		return err
	}
	for i, lane := range l.Lanes {
		m, s := k.metrics, states[i]
		m.waiting.WithLabelValues(l.Line, lane.Name, "first").Set(float64(s.Waiting))
		m.waiting.WithLabelValues(l.Line, lane.Name, "timed_out").Set(float64(s.TimedOut))
		m.sent.WithLabelValues(l.Line, lane.Name).Set(float64(s.Sent))
		m.running.WithLabelValues(l.Line, lane.Name).Set(float64(s.Running))
		m.slots.WithLabelValues(l.Line, lane.Name).Set(float64(lane.Slots))
		h := history[lane.Name]
		if h == nil {
			h = &sql.LaneRecord{}
		}
		m.ended.WithLabelValues(l.Line, lane.Name).Set(float64(h.Ended))
		moved, final := h.TimedOut, 0
		if i == len(l.Lanes)-1 {
			moved, final = 0, h.TimedOut
		}
		m.timedOut.WithLabelValues(l.Line, lane.Name, "moved").Set(float64(moved))
		m.timedOut.WithLabelValues(l.Line, lane.Name, "failed").Set(float64(final))
		m.wait.WithLabelValues(l.Line, lane.Name, "0.5").Set(h.Wait.Quantile(0.5))
		m.wait.WithLabelValues(l.Line, lane.Name, "0.95").Set(h.Wait.Quantile(0.95))
		m.wrong.WithLabelValues(l.Line, lane.Name, "quick_sent_slow").Set(float64(h.QuickSentSlow))
		m.wrong.WithLabelValues(l.Line, lane.Name, "slow_sent_express").Set(float64(h.SlowSentExpress))
		m.givenUp.WithLabelValues(l.Line, lane.Name).Set(float64(h.Unheard))
	}
	return nil
}

// release sends what waits in lines that have no lanes any more to where it would
// have gone without, as far as there are slots.
func (k *LaneKeeper) release(ctx context.Context, queues []Queue) error {
	lines, err := k.Store.WaitingLines(ctx)
	if err != nil {
		return err
	}
	configured := make(map[string]bool)
	for _, q := range queues {
		configured[q.Lanes.Line] = true
	}
	var failed []error
	for _, line := range lines {
		if configured[line] {
			continue
		}
		home, err := k.Home(ctx, line)
		if errors.Is(err, scheduler.ErrUnknownTaskType) {
			k.Log.Warn("work waits in lanes of a task type that is not there", "line", line)
			continue
		}
		if err == nil {
			_, err = k.Slots.Claim(ctx, home, func(ctx context.Context, tx *sql.Tx, free int) (int, error) {
				return tx.SendWithoutLanes(ctx, line, home.Name, free)
			})
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("release what waits in the lanes of %q: %w", line, err))
		}
	}
	return errors.Join(failed...)
}
