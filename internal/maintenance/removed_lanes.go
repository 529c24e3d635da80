package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// RemovedLanes sends the backlogs of lane sets that no process has in its configuration.
type RemovedLanes struct {
	Store *db.Store
	Slots *dispatch.Slots
	Log   *slog.Logger

	// LaneSets returns the lane sets in the configuration of this process; nil is none.
	LaneSets func() []string
	// Home returns the queue of a removed lane set's work.
	Home func(ctx context.Context, laneSet string) (dispatch.Queue, error)
}

// Job returns the job that calls Release.
func (r *RemovedLanes) Job() Job {
	return Job{Name: "removed lanes", Period: time.Minute, Do: func(ctx context.Context) (string, error) { return r.Release(ctx, r.Store.Now()) }}
}

// Release sends the backlogs of removed lane sets to their queues without lanes, up to the free slots.
func (r *RemovedLanes) Release(ctx context.Context, now time.Time) (string, error) {
	if r.LaneSets != nil { // record this process's own sets first
		if err := r.Store.RecordLaneSets(ctx, r.LaneSets(), now); err != nil {
			return "", err
		}
	}
	sets, err := r.Store.RemovedLaneSets(ctx, now)
	if err != nil {
		return "", err
	}
	total := 0
	var failed []error
	for _, set := range sets {
		home, err := r.Home(ctx, set)
		if errors.Is(err, model.ErrUnknownTaskType) {
			r.Log.Warn("lanes of an unknown task type have a backlog", "lanes", set)
			continue
		}
		n := 0
		if err == nil {
			n, err = r.release(ctx, set, home, now)
		}
		if total += n; err != nil {
			failed = append(failed, fmt.Errorf("send the backlog of the removed lanes of %q: %w", set, err))
		}
	}
	return count(total, "sent without lanes"), errors.Join(failed...)
}

// release sends the backlog of a removed lane set to a queue, up to the free slots.
func (r *RemovedLanes) release(ctx context.Context, set string, home dispatch.Queue, now time.Time) (int, error) {
	c, err := r.Slots.Open(ctx, home)
	if err != nil {
		return 0, err
	}
	c.FromBacklogs, err = c.Tx.SendWithoutLanes(ctx, set, home.Name, c.Size, now)
	if _, err := c.Commit(ctx, nil, err); err != nil {
		return 0, err
	}
	return c.FromBacklogs, nil
}
