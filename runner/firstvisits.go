package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// FirstVisitsStore is what FirstVisits asks of the database besides its claims.
type FirstVisitsStore interface {
	ListersWithFirstVisits(ctx context.Context) ([]scheduler.Lister, error)
	ListedVisitTypes(ctx context.Context, lister uuid.UUID) ([]string, error)
	TaskType(ctx context.Context, name string) (scheduler.TaskType, error)
	FinishFirstVisits(ctx context.Context, l scheduler.Lister, now time.Time) (bool, error)
}

// FirstVisitsOptions configure FirstVisits.
type FirstVisitsOptions struct {
	Store FirstVisitsStore
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	Period time.Duration // between passes
}

// FirstVisits schedules the first visits of origins after their listing, for
// the listers that have a queue prefix for them: each visit type's go to the
// queue <prefix>:<backend name of load-<visit type>>, within its task type's
// limit. A lister is done when all of its enabled origins have been scheduled
// since the listing ended.
type FirstVisits struct {
	FirstVisitsOptions
	now    func() time.Time
	visits *prometheus.CounterVec
}

// NewFirstVisits makes a FirstVisits; its counters are registered on o.Reg.
func NewFirstVisits(o FirstVisitsOptions) *FirstVisits {
	f := &FirstVisits{
		FirstVisitsOptions: o,
		now:                time.Now,
		visits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_first_visits_scheduled_total",
			Help: "First visits claimed for scheduling, by visit type.",
		}, []string{"visit_type"}),
	}
	o.Reg.MustRegister(f.visits)
	return f
}

// Run schedules first visits every Period until ctx ends.
func (f *FirstVisits) Run(ctx context.Context) error {
	loop := daemon.Loop{
		RunOnce: func(ctx context.Context) (daemon.Result, error) {
			_, err := f.RunOnce(ctx)
			return daemon.Result{}, err
		},
		Period:  f.Period,
		Service: daemon.NewService(f.Log, "what scheduling first visits needs"),
	}
	return loop.Run(ctx)
}

// RunOnce makes one pass over the listers with first visits to schedule. A
// lister that fails doesn't hold up the others. It returns how many visits it
// claimed, and what went wrong for any lister.
func (f *FirstVisits) RunOnce(ctx context.Context) (int, error) {
	listers, err := f.Store.ListersWithFirstVisits(ctx)
	if err != nil {
		return 0, err
	}
	total := 0
	var failed []error
	for _, lister := range listers {
		n, err := f.lister(ctx, lister)
		total += n
		if err != nil {
			failed = append(failed, fmt.Errorf("first visits of lister %q, instance %q: %w", lister.Name, lister.InstanceName, err))
		}
	}
	return total, errors.Join(failed...)
}

// lister claims what the queues of one lister have room for.
func (f *FirstVisits) lister(ctx context.Context, lister scheduler.Lister) (int, error) {
	visitTypes, err := f.Store.ListedVisitTypes(ctx, lister.ID)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, visitType := range visitTypes {
		n, err := f.claim(ctx, lister, visitType)
		if err != nil {
			return total, err
		}
		total += n
	}
	done, err := f.Store.FinishFirstVisits(ctx, lister, f.now())
	if done {
		f.Log.Info("all first visits are scheduled", "lister", lister.Name, "instance", lister.InstanceName)
	}
	return total, err
}

// claim fills the free slots of one queue for first visits.
func (f *FirstVisits) claim(ctx context.Context, lister scheduler.Lister, visitType string) (int, error) {
	tt, err := f.Store.TaskType(ctx, scheduler.LoaderTaskType(visitType))
	if err != nil {
		return 0, err
	}
	queue := dispatch.Queue{Name: *lister.FirstVisitsQueuePrefix + ":" + tt.BackendName, Limit: tt.MaxQueueLength}
	n, err := f.Slots.Claim(ctx, queue, func(ctx context.Context, tx *sql.Tx, free int) (int, error) {
		// No cooldowns: these origins are new, or new again.
		origins, err := tx.GrabNextVisits(ctx, scheduler.VisitFilter{
			VisitType: visitType,
			Policy:    scheduler.FirstVisitsAfterListing,
			ListerID:  uuid.NullUUID{UUID: lister.ID, Valid: true},
		}, f.now(), free, false)
		if err != nil {
			return 0, err
		}
		return len(origins), dispatch.EnqueueVisits(ctx, tx, queue.Name, tt.BackendName, origins)
	})
	if n > 0 {
		f.visits.WithLabelValues(visitType).Add(float64(n))
		f.Log.Info("first visits claimed", "lister", lister.Name, "instance", lister.InstanceName, "queue", queue.Name, "visits", n)
	}
	return n, err
}
