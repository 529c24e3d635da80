package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/sql"
)

const (
	// keepSharesPeriod is how often shared queues are compared with what is noted
	// as underway.
	keepSharesPeriod = time.Minute

	// unheardAfter is how long after its claim the start of a piece of work, or
	// its end, may be on its way to us.
	unheardAfter = 10 * time.Minute

	// lostAfter is after what time work counts as lost whatever is known of it: a
	// visit may be scheduled again then, by default.
	lostAfter = 7 * 24 * time.Hour

	// otherGroups is the label of the groups that have no weight of their own, so
	// that there are no more labels than the configuration names.
	otherGroups = "(others)"
)

// ShareKeeper gives up work of shared queues whose events are not heard of: they
// are sent once, and a worker may be told to send none. Otherwise its group would
// pay for it for ever. It also measures the shares.
type ShareKeeper struct {
	store   *sql.Store
	lengths QueueLengths
	queues  []SharedQueue
	log     *slog.Logger

	inFlight, used, weight *prometheus.GaugeVec
}

// NewShareKeeper makes a ShareKeeper of some queues; its gauges are registered on
// reg.
func NewShareKeeper(store *sql.Store, lengths QueueLengths, queues []SharedQueue, log *slog.Logger, reg prometheus.Registerer) *ShareKeeper {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"queue", "group"})
		reg.MustRegister(g)
		return g
	}
	const groups = ", by queue and group; groups without a weight of their own are taken together."
	return &ShareKeeper{
		store: store, lengths: lengths, queues: queues, log: log,
		weight:   gauge("swh_scheduler_share_weight", "Weights of the groups that have work waiting"+groups),
		inFlight: gauge("swh_scheduler_share_in_flight", "Visits and tasks sent and not known to have ended"+groups),
		used:     gauge("swh_scheduler_share_used_seconds", "Work that ended in the last hour, in seconds"+groups),
	}
}

// Run looks every minute until ctx ends.
func (k *ShareKeeper) Run(ctx context.Context) error {
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) { return daemon.Result{}, k.RunOnce(ctx, time.Now()) },
		Period:  keepSharesPeriod, Jitter: true,
		Service: daemon.NewService(k.log, "what the ledger of shared queues needs"),
	}
	return loop.Run(ctx)
}

// RunOnce looks once.
func (k *ShareKeeper) RunOnce(ctx context.Context, now time.Time) error {
	for _, q := range k.queues {
		waiting, err := k.waiting(ctx, q, now)
		if err == nil {
			err = k.store.GiveUpInFlight(ctx, q.Name, now, waiting, now.Add(-unheardAfter), now.Add(-lostAfter))
		}
		if err == nil {
			err = k.measure(ctx, q, now)
		}
		if err != nil {
			return fmt.Errorf("keep the ledger of queue %q: %w", q.Name, err)
		}
	}
	return nil
}

// waiting is how much of a queue's work may still wait for a worker, at most.
func (k *ShareKeeper) waiting(ctx context.Context, q SharedQueue, now time.Time) (int, error) {
	if q.Lanes == nil {
		return messagesAtMost(ctx, k.store, k.lengths, q.Name, now)
	}
	states, err := k.store.LaneStates(ctx, q.Lanes.Line, len(q.Lanes.Lanes))
	if err != nil {
		return 0, err
	}
	waiting := 0
	for i, queue := range q.Lanes.Queues() {
		n, err := messagesAtMost(ctx, k.store, k.lengths, queue, now)
		if err != nil {
			return 0, err
		}
		waiting += n + states[i].TimedOut + states[i].Waiting
	}
	return waiting, nil
}

// messagesAtMost is how many messages may be in a queue, or on the way there. The
// outbox is counted first: see the package comment.
func messagesAtMost(ctx context.Context, store *sql.Store, lengths QueueLengths, queue string, now time.Time) (int, error) {
	underway, err := store.OutboxDepth(ctx, queue)
	if err != nil {
		return 0, err
	}
	recent, err := store.RecentlyDelivered(ctx, queue, now.Add(-celery.StatsAge))
	if err != nil {
		return 0, err
	}
	length, err := lengths.Length(ctx, queue, recent)
	return underway + length.Messages(), err
}

func (k *ShareKeeper) measure(ctx context.Context, q SharedQueue, now time.Time) error {
	states, err := k.store.ShareStates(ctx, q.Name, now, q.Shares.HalfLife)
	if err != nil {
		return err
	}
	used, err := k.store.ShareHistory(ctx, q.Name, now.Add(-time.Hour))
	if err != nil {
		return err
	}
	label := func(group string) string {
		if _, named := q.Shares.Weights[group]; named {
			return group
		}
		return otherGroups
	}
	weight, inFlight, seconds := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for group := range q.Shares.Weights {
		weight[group], inFlight[group], seconds[group] = 0, 0, 0
	}
	for group, s := range states {
		if s.Busy {
			weight[label(group)] += q.Shares.Weight(group)
		}
		inFlight[label(group)] += float64(s.InFlight)
		seconds[label(group)] += used[group].Seconds
	}
	for gauge, values := range map[*prometheus.GaugeVec]map[string]float64{k.weight: weight, k.inFlight: inFlight, k.used: seconds} {
		for group, v := range values {
			gauge.WithLabelValues(q.Name, group).Set(v)
		}
	}
	return nil
}
