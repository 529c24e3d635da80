package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// RemoteFirstVisitsStore is the scheduler of RemoteFirstVisits: an RPC server.
type RemoteFirstVisitsStore interface {
	dispatch.Listers
	ListersWithFirstVisits(ctx context.Context) ([]model.Lister, error)
	ListedVisitTypes(ctx context.Context, l model.Lister) ([]string, error)
	TaskType(ctx context.Context, name string) (model.TaskType, error)
	GrabNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int, dryRun bool) ([]model.ListedOrigin, error)
	ListedOrigins(ctx context.Context, f db.ListedOriginFilter) ([]model.ListedOrigin, *db.ListedOriginToken, error)
	VisitStats(ctx context.Context, keys []model.OriginKey) ([]model.VisitStats, error)
	UpdateLister(ctx context.Context, l model.Lister) (model.Lister, error)
}

// RemoteFirstVisits are FirstVisits on an RPC server, with the calls of the Python scheduler.
// Visits that don't reach the broker are lost to it: they are scheduled like all others then.
type RemoteFirstVisits struct {
	store  RemoteFirstVisitsStore
	direct *dispatch.Direct
	log    *slog.Logger
	visits *prometheus.CounterVec
}

// NewRemoteFirstVisits makes a RemoteFirstVisits; its counter is registered on reg.
func NewRemoteFirstVisits(store RemoteFirstVisitsStore, direct *dispatch.Direct, log *slog.Logger, reg prometheus.Registerer) *RemoteFirstVisits {
	return &RemoteFirstVisits{store, direct, log, newFirstVisitsCounter(reg)}
}

// RunOnce makes one pass over the listers with first visits to schedule. It returns the
// number of visits sent, and the errors of all listers.
func (f *RemoteFirstVisits) RunOnce(ctx context.Context) (total int, err error) {
	listers, err := f.store.ListersWithFirstVisits(ctx)
	failed := []error{err}
	for _, l := range listers {
		n, err := f.lister(ctx, l)
		total += n
		if err != nil {
			failed = append(failed, fmt.Errorf("first visits of %s: %w", nameOf(l), err))
		}
	}
	return total, errors.Join(failed...)
}

// lister sends first visits of a lister, and notes when all are sent.
func (f *RemoteFirstVisits) lister(ctx context.Context, l model.Lister) (total int, err error) {
	visitTypes, err := f.store.ListedVisitTypes(ctx, l)
	if err != nil {
		return 0, err
	}
	exhausted := true
	var failed []error
	for _, visitType := range visitTypes {
		n, more, err := f.send(ctx, l, visitType)
		total, exhausted, failed = total+n, exhausted && !more, append(failed, err)
	}
	if err := errors.Join(failed...); err != nil || !exhausted {
		return total, err
	}
	done, err := f.allScheduled(ctx, l)
	if err != nil || !done {
		return total, err
	}
	l.FirstVisitsScheduledAt = new(time.Now())
	if _, err = f.store.UpdateLister(ctx, l); err == nil {
		f.log.Info("all first visits are scheduled", "lister", l.Name, "instance", l.InstanceName)
	}
	return total, err
}

// send fills the free slots of the queue for first visits of a lister and visit type. more
// says that there may be more of them.
func (f *RemoteFirstVisits) send(ctx context.Context, l model.Lister, visitType string) (sent int, more bool, err error) {
	tt, err := f.store.TaskType(ctx, model.LoaderTaskType(visitType))
	if err != nil {
		return 0, true, err
	}
	queue := *l.FirstVisitsQueuePrefix + ":" + tt.BackendName
	free, err := f.direct.Free(ctx, queue, tt.MaxQueueLength)
	if err != nil || free == 0 {
		return 0, true, err
	}
	if err := f.direct.Ready(ctx, queue); err != nil {
		return 0, true, err
	}
	origins, err := f.store.GrabNextVisits(ctx, firstVisitsOf(l, visitType), time.Now(), free, false)
	if err != nil {
		return 0, true, err
	}
	sent, err = f.direct.Visits(ctx, f.store, queue, tt.BackendName, origins)
	if sent > 0 {
		f.visits.WithLabelValues(visitType).Add(float64(sent))
		f.log.Info("first visits sent", "queue", queue, "visits", sent)
	}
	return sent, len(origins) == free, err
}

// allScheduled reports whether all enabled origins of a lister have been scheduled since
// its listing ended.
func (f *RemoteFirstVisits) allScheduled(ctx context.Context, l model.Lister) (bool, error) {
	filter := db.ListedOriginFilter{ListerID: uuid.NullUUID{UUID: l.ID, Valid: true}, Enabled: new(true)}
	for {
		origins, next, err := f.store.ListedOrigins(ctx, filter)
		if err != nil {
			return false, err
		}
		keys := make([]model.OriginKey, len(origins))
		for i, o := range origins {
			keys[i] = model.OriginKey{URL: o.URL, VisitType: o.VisitType}
		}
		stats, err := f.store.VisitStats(ctx, keys)
		if err != nil || len(stats) < len(keys) {
			return false, err
		}
		for _, s := range stats {
			if s.LastScheduled == nil || s.LastScheduled.Before(*l.LastListingFinishedAt) {
				return false, nil
			}
		}
		if next == nil {
			return true, nil
		}
		filter.After = next
	}
}
