package origins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

func listerOf(row queries.Lister) model.Lister { return model.Lister(row) }

// ListerByID finds a lister by its identifier, or returns model.ErrUnknownLister.
func (a Queries) ListerByID(ctx context.Context, id uuid.UUID) (model.Lister, error) {
	row, err := a.q.ListerByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Lister{}, fmt.Errorf("%w: id %s", model.ErrUnknownLister, id)
	}
	return listerOf(row), stmt.Failed(err, "read lister %s", id)
}

// Lister finds a lister by its name and its instance's name (may be ""). It returns model.ErrUnknownLister
// if there is none.
func (a Queries) Lister(ctx context.Context, name, instance string) (model.Lister, error) {
	row, err := a.q.ListerByName(ctx, queries.ListerByNameParams{Name: name, InstanceName: instance})
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Lister{}, fmt.Errorf("%w: %q, instance %q", model.ErrUnknownLister, name, instance)
	}
	return listerOf(row), stmt.Failed(err, "read lister %q, instance %q", name, instance)
}

// Listers lists all listers.
func (a Queries) Listers(ctx context.Context) ([]model.Lister, error) {
	rows, err := a.q.Listers(ctx)
	return stmt.List(rows, stmt.Failed(err, "read listers"), listerOf)
}

// ListersByID returns the listers with the identifiers; it omits missing ones.
func (a Queries) ListersByID(ctx context.Context, ids []uuid.UUID) ([]model.Lister, error) {
	rows, err := a.q.ListersByID(ctx, ids)
	return stmt.List(rows, stmt.Failed(err, "read listers"), listerOf)
}

// VisitListers lists the listers that may have origins of a visit type to visit. These are all listers if a
// policy has cooldowns shorter than the default ones. It sets only ID, Name and InstanceName.
func (a Queries) VisitListers(ctx context.Context, visitType string, policies []model.WeightedPolicy) ([]model.Lister, error) {
	shorter := slices.ContainsFunc(policies, func(p model.WeightedPolicy) bool {
		return len(p.Filter.Cooldowns.Shorter()) > 0
	})
	rows, err := a.q.GroupedListers(ctx, queries.GroupedListersParams{VisitType: visitType, ParkedToo: shorter})
	return stmt.List(rows, err, func(r queries.GroupedListersRow) model.Lister {
		return model.Lister{ID: r.ID, Name: r.Name, InstanceName: r.InstanceName}
	})
}

// GetOrCreateLister returns a lister. If the lister is missing, it first adds it with the queue prefix for
// first visits (nil: none).
func (a Queries) GetOrCreateLister(ctx context.Context, name, instance string, firstVisitsQueuePrefix *string) (model.Lister, error) {
	found, err := a.Lister(ctx, name, instance)
	if !errors.Is(err, model.ErrUnknownLister) {
		return found, err
	}
	err = a.q.CreateLister(ctx, queries.CreateListerParams{
		Name: name, InstanceName: instance, FirstVisitsQueuePrefix: firstVisitsQueuePrefix,
	})
	if err != nil {
		return model.Lister{}, fmt.Errorf("create lister %q, instance %q: %w", name, instance, err)
	}
	// Read again: another process may have created it first.
	return a.Lister(ctx, name, instance)
}

// UpdateLister writes a lister, except its identifier and date of creation, and returns the stored lister.
// It returns model.ErrStaleData if the lister was written after l.Updated or is deleted.
func (a Queries) UpdateLister(ctx context.Context, l model.Lister) (model.Lister, error) {
	row, err := a.q.UpdateLister(ctx, queries.UpdateListerParams{
		ID: l.ID, WasUpdated: l.Updated, Name: l.Name, InstanceName: l.InstanceName, CurrentState: stmt.OrEmptyObject(l.CurrentState),
		LastListingFinishedAt: l.LastListingFinishedAt, FirstVisitsQueuePrefix: l.FirstVisitsQueuePrefix, FirstVisitsScheduledAt: l.FirstVisitsScheduledAt,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Lister{}, fmt.Errorf("%w: lister %s was written since it was read", model.ErrStaleData, l.ID)
	}
	return listerOf(row), stmt.Failed(err, "update lister %s", l.ID)
}

// ListersWithFirstVisits lists the listers with a finished listing, a queue prefix for first visits, and
// first visits left to schedule.
func (a Queries) ListersWithFirstVisits(ctx context.Context) ([]model.Lister, error) {
	rows, err := a.q.ListersWithFirstVisits(ctx)
	return stmt.List(rows, stmt.Failed(err, "read the listers with first visits to schedule"), listerOf)
}

// FirstVisitsPrefixes lists the prefixes of the queues of first visits, also of those that were all scheduled.
func (a Queries) FirstVisitsPrefixes(ctx context.Context) ([]string, error) {
	prefixes, err := a.q.FirstVisitsPrefixes(ctx)
	return prefixes, stmt.Failed(err, "read the prefixes of queues of first visits")
}

// ListedVisitTypes lists the visit types of a lister's origins.
func (a Queries) ListedVisitTypes(ctx context.Context, lister uuid.UUID) ([]string, error) {
	types, err := a.q.ListedVisitTypes(ctx, lister)
	return types, stmt.Failed(err, "read the visit types of lister %s", lister)
}

// FinishFirstVisits records at now that all first visits of a lister are scheduled. It returns false and
// changes nothing if an enabled origin has not been scheduled since the listing ended, or if the lister has
// changed since l was read.
func (a Queries) FinishFirstVisits(ctx context.Context, l model.Lister, now time.Time) (bool, error) {
	n, err := a.q.FinishFirstVisits(ctx, queries.FinishFirstVisitsParams{Now: now, ID: l.ID, Updated: l.Updated})
	return n > 0, stmt.Failed(err, "finish the first visits of lister %s", l.ID)
}
