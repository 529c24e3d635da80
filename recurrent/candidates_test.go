package recurrent

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/origins"
)

// backlogged is a store with a number of changes to drain.
type backlogged struct{ changes, batch int64 }

func (b *backlogged) MaintainCandidates(context.Context) (origins.MaintainResult, error) {
	n := min(b.changes, b.batch)
	b.changes -= n
	return origins.MaintainResult{Drained: n, More: n == b.batch}, nil
}

// The keeper drains again at once while changes are left.
func TestKeeper(t *testing.T) {
	t.Parallel()
	store := &backlogged{changes: 202_000, batch: 5000}
	k := &keeper{candidates: store}
	rounds := 0
	for rounds < 100 {
		rounds++
		result, err := k.runOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !result.Again {
			break
		}
	}
	if rounds != 41 {
		t.Errorf("%d rounds, want 41", rounds)
	}
}

// A daemon without anything to schedule keeps candidates up to date.
func TestRunKeepsCandidates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, "update task_type set max_queue_length = 1")
	w.list(t, "plain", 50, false)
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: noOriginsBackoff, QueueFullBackoff: queueFullBackoff,
	})
	stop := testenv.Run(t, s.Run)
	testenv.Becomes(t, "changes that are not drained", 0, func() int64 {
		backlog, err := w.store.CandidateBacklog(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		return backlog
	})
	stop()
}
