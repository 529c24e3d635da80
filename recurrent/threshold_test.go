package recurrent

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// The threshold of the policy freshness rises while messages wait for a worker. Otherwise it falls, even
// while workers are busy.
func TestThresholdFollowsWaitingMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.store.ConfigureFreshness(t.Context(), map[string]time.Duration{"git": 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	r := w.round(t, []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.Freshness}}})
	ch := testenv.Channel(t, w.broker.URL)
	testenv.Declare(t, ch, queue, nil)
	rises := func() bool {
		t.Helper()
		w.exec(t, "update scheduler_go.freshness_control set threshold = 100, stepped = now() - interval '1 day'")
		runRound(t, r)
		threshold := testenv.Value[float64](t, w.store.Pool(), "select threshold from scheduler_go.freshness_control")
		if threshold == 100 {
			t.Fatalf("the threshold is %g", threshold)
		}
		return threshold > 100
	}
	testenv.Put(t, ch, queue, amqp.Publishing{})
	if !rises() {
		t.Error("it falls while a message waits")
	}
	if _, ok, err := ch.Get(queue, false); !ok || err != nil { // a worker has it
		t.Fatal(ok, err)
	}
	if rises() {
		t.Error("it rises while no message waits")
	}
}
