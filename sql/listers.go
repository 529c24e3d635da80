package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// lister finds a lister by its identifier; scheduler.ErrUnknownLister if there
// is none.
func (a asker) lister(ctx context.Context, id uuid.UUID) (scheduler.Lister, error) {
	row, err := a.q.ListerByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return scheduler.Lister{}, fmt.Errorf("%w: id %s", scheduler.ErrUnknownLister, id)
	}
	if err != nil {
		return scheduler.Lister{}, fmt.Errorf("read lister %s: %w", id, err)
	}
	return listerOf(row), nil
}

// listerByName finds a lister by its name and instance name.
func (a asker) listerByName(ctx context.Context, name, instance string) (scheduler.Lister, error) {
	row, err := a.q.ListerByName(ctx, queries.ListerByNameParams{Name: name, InstanceName: instance})
	if errors.Is(err, pgx.ErrNoRows) {
		return scheduler.Lister{}, fmt.Errorf("%w: %q, instance %q", scheduler.ErrUnknownLister, name, instance)
	}
	if err != nil {
		return scheduler.Lister{}, fmt.Errorf("read lister %q, instance %q: %w", name, instance, err)
	}
	return listerOf(row), nil
}

func listerOf(row queries.Lister) scheduler.Lister {
	return scheduler.Lister(row)
}

// ListersByID finds listers by their identifiers. Those that are not there are
// missing from the result.
func (a asker) ListersByID(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]scheduler.Lister, error) {
	rows, err := a.q.ListersByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read listers: %w", err)
	}
	listers := make(map[uuid.UUID]scheduler.Lister, len(rows))
	for _, row := range rows {
		listers[row.ID] = listerOf(row)
	}
	return listers, nil
}
