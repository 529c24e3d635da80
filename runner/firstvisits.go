package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// FirstVisitsStore is the database of FirstVisits, besides its claims.
type FirstVisitsStore interface {
	Now() time.Time
	ListersWithFirstVisits(ctx context.Context) ([]model.Lister, error)
	ListedVisitTypes(ctx context.Context, lister uuid.UUID) ([]string, error)
	TaskType(ctx context.Context, name string) (model.TaskType, error)
	FinishFirstVisits(ctx context.Context, l model.Lister, now time.Time) (bool, error)
}

// FirstVisitsOptions configure FirstVisits.
type FirstVisitsOptions struct {
	Store FirstVisitsStore
	Slots Slots
	Log   *slog.Logger
	Reg   prometheus.Registerer

	Period time.Duration // between passes
}

// FirstVisits schedules the first visits of origins after their listing, for the listers
// that have a queue prefix for them. They go to the queue <prefix>:<backend name of
// load-<visit type>>, within its task type's limit. A lister is done when all of its
// enabled origins have been scheduled since the listing ended.
type FirstVisits struct {
	FirstVisitsOptions
	now    func() time.Time
	visits *prometheus.CounterVec
	sizes  claimSizes
}

// NewFirstVisits makes a FirstVisits; its counters are registered on o.Reg.
func NewFirstVisits(o FirstVisitsOptions) *FirstVisits {
	return &FirstVisits{
		FirstVisitsOptions: o, now: o.Store.Now, sizes: make(claimSizes),
		visits: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_first_visits_scheduled_total", Help: "First visits claimed for scheduling, by visit type.",
		}, []string{"visit_type"}),
	}
}

// Run schedules first visits every Period until ctx ends.
func (f *FirstVisits) Run(ctx context.Context) error {
	return (&service.Loop{
		RunOnce: func(ctx context.Context) (service.Result, error) {
			_, err := f.RunOnce(ctx)
			if celery.IsOfQueue(err) {
				err = nil // no outage: the other queues go on
			}
			return service.Result{}, err
		},
		Period:  f.Period,
		Service: service.NewService(f.Log, "what scheduling first visits needs"),
	}).Run(ctx)
}

// RunOnce makes one pass over the listers with first visits to schedule. It returns the
// number of claimed visits, and the errors of all listers.
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

// lister claims within the free slots of the queues of one lister.
func (f *FirstVisits) lister(ctx context.Context, lister model.Lister) (int, error) {
	visitTypes, err := f.Store.ListedVisitTypes(ctx, lister.ID)
	if err != nil {
		return 0, err
	}
	total := 0
	var failed []error
	for _, visitType := range visitTypes {
		n, err := f.claim(ctx, lister, visitType)
		total += n
		if err != nil {
			failed = append(failed, fmt.Errorf("visit type %q: %w", visitType, err))
		}
	}
	if failed != nil {
		return total, errors.Join(failed...)
	}
	done, err := f.Store.FinishFirstVisits(ctx, lister, f.now())
	if done {
		f.Log.Info("all first visits are scheduled", "lister", lister.Name, "instance", lister.InstanceName)
	}
	return total, err
}

// claim fills the free slots of one queue for first visits. After one that timed out it
// claims half as many.
func (f *FirstVisits) claim(ctx context.Context, lister model.Lister, visitType string) (int, error) {
	tt, err := f.Store.TaskType(ctx, model.LoaderTaskType(visitType))
	if err != nil {
		return 0, err
	}
	queue := dispatch.Queue{Name: *lister.FirstVisitsQueuePrefix + ":" + tt.BackendName, Limit: tt.MaxQueueLength}
	size, asked := f.sizes.of(queue.Name), 0
	n, err := f.Slots.Claim(ctx, queue, func(ctx context.Context, tx *db.Tx, free int) (dispatch.Claimed, error) {
		now := f.now()
		asked = size.Of(free)
		// No cooldowns: these origins are new, or new again.
		origins, err := tx.GrabNextVisits(ctx, model.VisitFilter{
			VisitType: visitType, Policy: model.FirstVisitsAfterListing, ListerID: uuid.NullUUID{UUID: lister.ID, Valid: true},
		}, now, asked, false)
		if err != nil {
			return dispatch.Claimed{}, err
		}
		work, err := dispatch.VisitWork(ctx, tx, queue.Name, tt.BackendName, dispatch.Visits(origins), now)
		return dispatch.Claimed{Work: work}, err
	})
	if err == nil {
		asked = n
	}
	size.Note(asked, err)
	if n > 0 {
		f.visits.WithLabelValues(visitType).Add(float64(n))
		f.Log.Info("first visits claimed", "lister", lister.Name, "instance", lister.InstanceName, "queue", queue.Name, "visits", n)
	}
	return n, err
}
