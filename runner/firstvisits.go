package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
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

	// By model.KeyOf of the prefix of the listers' queue and the task type.
	Shares map[string]model.Shares
	Lanes  map[string][]model.Lane
}

// FirstVisits schedules the first visits of origins after their listing, for the listers that have a queue prefix
// for them. The visits go to the queue <prefix>:<backend name of load-<visit type>>, within its task type's limit,
// and to the lanes of that queue, if it has any. Listers with the same queue follow one another, unless they share
// it. A lister is done when all of its enabled origins have been scheduled since the listing ended.
type FirstVisits struct {
	FirstVisitsOptions
	now    func() time.Time
	visits *prometheus.CounterVec
}

// NewFirstVisits makes a FirstVisits; its counters are registered on o.Reg.
func NewFirstVisits(o FirstVisitsOptions) *FirstVisits {
	return &FirstVisits{
		FirstVisitsOptions: o, now: o.Store.Now,
		visits: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_first_visits_scheduled_total", Help: "First visits claimed for scheduling, by visit type.",
		}, []string{"visit_type"}),
	}
}

// Run schedules first visits every Period until ctx ends.
func (f *FirstVisits) Run(ctx context.Context) error {
	return (&service.Loop{
		Name: "claiming first visits", Log: f.Log, Period: f.Period,
		RunOnce: func(ctx context.Context) (service.Result, error) {
			_, err := f.RunOnce(ctx)
			if celery.IsOfQueue(err) {
				err = nil // not an outage: the other queues continue
			}
			return service.Result{}, err
		},
	}).Run(ctx)
}

// firstQueue is a queue of first visits.
type firstQueue struct{ prefix, visitType string }

// RunOnce makes one pass over the listers with first visits to schedule. It returns the
// number of claimed visits, and the errors of all listers and queues.
func (f *FirstVisits) RunOnce(ctx context.Context) (int, error) {
	listers, err := f.Store.ListersWithFirstVisits(ctx)
	if err != nil {
		return 0, err
	}
	var failed []error
	var queues []firstQueue
	of := make(map[firstQueue][]model.Lister)
	for _, lister := range listers {
		visitTypes, err := f.Store.ListedVisitTypes(ctx, lister.ID)
		if err != nil {
			failed = append(failed, fmt.Errorf("first visits of %s: %w", nameOf(lister), err))
		}
		for _, visitType := range visitTypes {
			q := firstQueue{*lister.FirstVisitsQueuePrefix, visitType}
			if of[q] == nil {
				queues = append(queues, q)
			}
			of[q] = append(of[q], lister)
		}
	}
	total := 0
	for _, q := range queues {
		n, err := f.claim(ctx, q, of[q])
		total += n
		if err != nil {
			failed = append(failed, fmt.Errorf("first visits of type %q, queue prefix %q: %w", q.visitType, q.prefix, err))
		}
	}
	for _, lister := range listers {
		done, err := f.Store.FinishFirstVisits(ctx, lister, f.now())
		if err != nil {
			failed = append(failed, fmt.Errorf("first visits of %s: %w", nameOf(lister), err))
		}
		if done {
			f.Log.Info("all first visits are scheduled", "lister", lister.Name, "instance", lister.InstanceName)
		}
	}
	return total, errors.Join(failed...)
}

func nameOf(l model.Lister) string {
	return fmt.Sprintf("lister %q, instance %q", l.Name, l.InstanceName)
}

// claim fills the free slots of one queue for first visits.
func (f *FirstVisits) claim(ctx context.Context, q firstQueue, listers []model.Lister) (int, error) {
	tt, err := f.Store.TaskType(ctx, model.LoaderTaskType(q.visitType))
	if err != nil {
		return 0, err
	}
	queue := dispatch.Queue{Name: q.prefix + ":" + tt.BackendName, Limit: tt.MaxQueueLength}
	key, _ := model.KeyOf(queue.Name, tt)
	queue = queue.WithLanes(key, tt, f.Lanes)
	c, err := f.Slots.Open(ctx, queue)
	if err != nil {
		return 0, err
	}
	now := f.now()
	g := firstGrab{tx: c.Tx, now: now, grabs: c.Tx.Grabs(now), visitType: q.visitType}
	if shares, shared := f.Shares[key]; shared {
		err = g.share(ctx, dispatch.SharedQueue{Name: queue.Name, Shares: shares}, listers, c.Size)
	} else {
		_, err = g.grab(ctx, listers, c.Size, ledger.Share{})
	}
	var work []ledger.Work
	if err == nil {
		work, err = dispatch.VisitWork(ctx, c.Tx, queue.Name, tt.BackendName, g.visits, g.now)
	}
	n, err := c.Commit(ctx, work, err)
	if n > 0 {
		f.visits.WithLabelValues(q.visitType).Add(float64(n))
		f.Log.Info("first visits claimed", "queue", queue.Name, "visits", n)
	}
	return n, err
}

// firstGrab grabs the first visits of a claim.
type firstGrab struct {
	tx        *db.Tx
	now       time.Time
	grabs     *origins.Grabs
	visitType string
	visits    []dispatch.Visit
}

// grab grabs up to n origins of listers, one lister after the other, and returns their number.
func (g *firstGrab) grab(ctx context.Context, listers []model.Lister, n int, share ledger.Share) (grabbed int, err error) {
	for _, lister := range listers {
		if grabbed == n {
			break
		}
		visits, err := g.grabs.Next(ctx, firstVisitsOf(lister, g.visitType), n-grabbed)
		if err != nil {
			return 0, err
		}
		grabbed += len(visits)
		for _, v := range visits {
			g.visits = append(g.visits, dispatch.Visit{GrabbedVisit: v, Share: share})
		}
	}
	return grabbed, nil
}

// firstVisitsOf filters the first visits of a lister, without cooldowns: its origins are new, or listed again.
func firstVisitsOf(l model.Lister, visitType string) model.VisitFilter {
	return model.VisitFilter{VisitType: visitType, Policy: model.FirstVisitsAfterListing, ListerID: uuid.NullUUID{UUID: l.ID, Valid: true}}
}

// share divides free slots between the groups of listers.
func (g *firstGrab) share(ctx context.Context, queue dispatch.SharedQueue, listers []model.Lister, free int) error {
	groups := make(map[string][]model.Lister)
	for _, l := range listers {
		group := model.ListerGroup(queue.Shares.By, l)
		groups[group] = append(groups[group], l)
	}
	waiting := dispatch.WaitingGroups{Groups: slices.Collect(maps.Keys(groups)), Visits: true}
	d, err := dispatch.Divide(ctx, g.tx, queue, g.now, free, waiting)
	if err != nil {
		return err
	}
	for asks := d.Next(); asks != nil; asks = d.Next() {
		given := make([]int, len(asks))
		for i, ask := range asks {
			if given[i], err = g.grab(ctx, groups[ask.Name], ask.Count, ask.Share()); err != nil {
				return err
			}
		}
		d.RecordClaimed(given)
	}
	return d.Save(ctx, g.tx)
}
