package status

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// sampledWaiting bounds the waiting work that a sample counts of a group: one message entitles the group.
const sampledWaiting = 1

// SampleQueues returns a sample of all queues and of the groups that share them, and the kinds that it could read.
func SampleQueues(ctx context.Context, store *db.Store, broker QueueSource, c *config.Config) (kinds []db.FigureKind, figures []db.Figure, err error) {
	known, err := dispatch.KnownQueues(ctx, store, c.Lanes)
	if err != nil {
		return nil, nil, err
	}
	queues, err := Queues(ctx, store, broker, known, nil)
	if err == nil {
		kinds = append(kinds, db.QueueFigures)
	}
	for _, q := range queues {
		ready, working, consumers := float64(q.Ready), math.NaN(), float64(q.Consumers)
		if q.Problem != "" {
			ready, consumers = math.NaN(), math.NaN()
		}
		if q.Unacknowledged != nil {
			working = float64(*q.Unacknowledged)
		}
		figures = append(figures, db.Figure{
			Kind: db.QueueFigures, Name: q.Queue,
			Values: []float64{ready, working, float64(q.Outgoing), float64(q.Backlog), consumers},
		})
	}
	if len(c.Shares) == 0 {
		return kinds, figures, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Shares)) {
		groups, ofGroups := Groups(ctx, store, c, name, sampledWaiting)
		if errors.Is(ofGroups, model.ErrUnknownTaskType) {
			continue // daemons warn about it
		}
		if ofGroups != nil {
			return kinds, figures, errors.Join(err, ofGroups)
		}
		for _, g := range groups {
			figures = append(figures, db.Figure{Kind: db.ShareFigures, Name: g.Queue, Part: g.Group, Values: []float64{g.Entitled, g.Now}})
		}
	}
	return append(kinds, db.ShareFigures), figures, err
}
