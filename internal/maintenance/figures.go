package maintenance

import (
	"context"
	"errors"

	"swh-scheduler/sql/db"
)

// Figures returns the job that samples figures of origins and visits over time, and deletes old samples.
func Figures(store *db.Store) Job {
	return Job{Name: "figures over time", Period: db.FiguresEvery, Origins: true, Do: func(ctx context.Context) (string, error) {
		return "", errors.Join(store.SampleOrigins(ctx, store.Now()), store.ForgetFigures(ctx))
	}}
}

// QueueFigures returns the job that samples queues and the groups that share them. sample returns the samples, and
// the kinds that it sampled.
func QueueFigures(store *db.Store, sample func(ctx context.Context) ([]db.FigureKind, []db.Figure, error)) Job {
	return Job{Name: "queues over time", Period: db.FiguresEvery, Do: func(ctx context.Context) (string, error) {
		kinds, figures, err := sample(ctx)
		return "", errors.Join(err, store.NoteFigures(ctx, store.Now(), kinds, figures))
	}}
}
