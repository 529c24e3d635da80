package recurrent

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/model"
)

// A database without any loader's task type is waited on, not an end: the
// daemon begins to schedule when one is added.
func TestRunWaitsForTheFirstLoader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 5, false)
	w.exec(t, "update task_type set type = 'list-git'")
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": evenly},
		NoOriginsBackoff: DefaultNoOriginsBackoff, QueueFullBackoff: DefaultQueueFullBackoff,
	})
	s.splay = func() time.Duration { return 0 }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.exec(t, "update task_type set type = 'load-git'")
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(w.scheduled(t)) < 5 {
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-deadline:
			t.Fatal("nothing was scheduled within a minute")
		case <-tick.C:
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
