package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// ListerByID finds a lister by its identifier; scheduler.ErrUnknownLister if
// there is none.
func (a asker) ListerByID(ctx context.Context, id uuid.UUID) (scheduler.Lister, error) {
	row, err := a.q.ListerByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return scheduler.Lister{}, fmt.Errorf("%w: id %s", scheduler.ErrUnknownLister, id)
	}
	if err != nil {
		return scheduler.Lister{}, fmt.Errorf("read lister %s: %w", id, err)
	}
	return listerOf(row), nil
}

// Lister finds a lister by its name and that of its instance ("" where it has
// none); scheduler.ErrUnknownLister if there is none.
func (a asker) Lister(ctx context.Context, name, instance string) (scheduler.Lister, error) {
	row, err := a.q.ListerByName(ctx, queries.ListerByNameParams{Name: name, InstanceName: instance})
	if errors.Is(err, pgx.ErrNoRows) {
		return scheduler.Lister{}, fmt.Errorf("%w: %q, instance %q", scheduler.ErrUnknownLister, name, instance)
	}
	if err != nil {
		return scheduler.Lister{}, fmt.Errorf("read lister %q, instance %q: %w", name, instance, err)
	}
	return listerOf(row), nil
}

// Listers lists all listers.
func (a asker) Listers(ctx context.Context) ([]scheduler.Lister, error) {
	rows, err := a.q.Listers(ctx)
	if err != nil {
		return nil, fmt.Errorf("read listers: %w", err)
	}
	return listersOf(rows), nil
}

// ListersByID are the listers of these identifiers that there are.
func (a asker) ListersByID(ctx context.Context, ids []uuid.UUID) ([]scheduler.Lister, error) {
	rows, err := a.q.ListersByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read listers: %w", err)
	}
	return listersOf(rows), nil
}

// GetOrCreateLister finds a lister, or adds it. The prefix of the queues of its
// first visits (nil: none) is that of a new one only.
func (a asker) GetOrCreateLister(ctx context.Context, name, instance string, firstVisitsQueuePrefix *string) (scheduler.Lister, error) {
	found, err := a.Lister(ctx, name, instance)
	if !errors.Is(err, scheduler.ErrUnknownLister) {
		return found, err
	}
	err = a.q.CreateLister(ctx, queries.CreateListerParams{
		Name: name, InstanceName: instance, FirstVisitsQueuePrefix: firstVisitsQueuePrefix,
	})
	if err != nil {
		return scheduler.Lister{}, fmt.Errorf("create lister %q, instance %q: %w", name, instance, err)
	}
	// Read again, because somebody else may have been faster.
	return a.Lister(ctx, name, instance)
}

// UpdateLister writes a lister, all but its identifier and date of creation, and
// returns it as it is then. l.Updated is when it was written last as far as the
// caller knows; scheduler.ErrStaleData if somebody wrote it since, or it is gone.
func (a asker) UpdateLister(ctx context.Context, l scheduler.Lister) (scheduler.Lister, error) {
	row, err := a.q.UpdateLister(ctx, queries.UpdateListerParams{
		ID:                     l.ID,
		WasUpdated:             l.Updated,
		Name:                   l.Name,
		InstanceName:           l.InstanceName,
		CurrentState:           orEmptyObject(l.CurrentState),
		LastListingFinishedAt:  l.LastListingFinishedAt,
		FirstVisitsQueuePrefix: l.FirstVisitsQueuePrefix,
		FirstVisitsScheduledAt: l.FirstVisitsScheduledAt,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return scheduler.Lister{}, fmt.Errorf("%w: lister %s was written since it was read", scheduler.ErrStaleData, l.ID)
	}
	if err != nil {
		return scheduler.Lister{}, fmt.Errorf("update lister %s: %w", l.ID, err)
	}
	return listerOf(row), nil
}

func listersOf(rows []queries.Lister) []scheduler.Lister {
	listers := make([]scheduler.Lister, len(rows))
	for i, row := range rows {
		listers[i] = listerOf(row)
	}
	return listers
}

func listerOf(row queries.Lister) scheduler.Lister { return scheduler.Lister(row) }

func orEmptyObject(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("{}")
	}
	return text
}
