package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/ledger"
)

// modelMessage is a message of the model, in the ledger and at the broker.
type modelMessage struct {
	outgoing  bool // in the ledger
	published bool
	confirmed bool // written to deliveries
	ready     bool
	holder    *modelConsumer // has it unacknowledged
}

func (m *modelMessage) held() bool { return m.outgoing || m.ready || m.holder != nil }

type modelConsumer struct{ prefetch, holds int }

// modelFigures are what the broker's statistics say as of a moment.
type modelFigures struct {
	at                    time.Time
	ready, unacknowledged int
	prefetch              []int
}

// slotModel is one queue: its ledger, its broker, its workers, and the database's clock.
type slotModel struct {
	*rand.Rand
	now, least time.Time
	prefetch   int // of all consumers, as the workers of a queue are configured alike
	messages   []*modelMessage
	consumers  []*modelConsumer
	deliveries []time.Time
	statistics []modelFigures
	events     []string // since the last claim but one

	unrecordedEnds bool // for TestBoundNeedsTheRecordOfEnds
}

func (q *slotModel) count(such func(*modelMessage) bool) (n int) {
	for _, m := range q.messages {
		if such(m) {
			n++
		}
	}
	return n
}

func (q *slotModel) ready() int { return q.count(func(m *modelMessage) bool { return m.ready }) }
func (q *slotModel) held() int  { return q.count((*modelMessage).held) }

// pick returns one such message at random, or nil.
func (q *slotModel) pick(such func(*modelMessage) bool) *modelMessage {
	n := q.count(such)
	if n == 0 {
		return nil
	}
	n = q.IntN(n)
	for _, m := range q.messages {
		if such(m) {
			if n--; n < 0 {
				return m
			}
		}
	}
	return nil
}

func (q *slotModel) claim(n int) {
	for range n {
		q.messages = append(q.messages, &modelMessage{outgoing: true})
	}
}

// step makes one event happen, and updates the statistics.
func (q *slotModel) step() {
	what := "nothing"
	switch q.IntN(9) {
	case 0, 1:
		if m := q.pick(func(m *modelMessage) bool { return m.outgoing && !m.published }); m != nil {
			m.published, m.ready, what = true, true, "publish"
		}
	case 2: // the confirmation is written, also of a message that is gone
		if m := q.pick(func(m *modelMessage) bool { return m.published && !m.confirmed }); m != nil {
			m.confirmed, m.outgoing, what = true, false, "confirm"
			q.deliveries = append(q.deliveries, q.now)
		}
	case 3, 4:
		if m := q.pick(func(m *modelMessage) bool { return m.ready }); m != nil {
			for _, c := range q.consumers {
				if c.prefetch == 0 || c.holds < c.prefetch {
					m.ready, m.holder, what = false, c, "consume"
					c.holds++
					break
				}
			}
		}
	case 5: // a worker that acknowledges late tells the end first
		if m := q.pick(func(m *modelMessage) bool { return m.holder != nil && m.outgoing }); m != nil {
			m.outgoing, what = false, "end"
			if !q.unrecordedEnds {
				q.deliveries = append(q.deliveries, q.now)
			}
		}
	case 6:
		if m := q.pick(func(m *modelMessage) bool { return m.holder != nil }); m != nil {
			m.holder.holds--
			m.holder, what = nil, "acknowledge"
			if q.IntN(4) == 0 {
				m.ready, what = true, "requeue"
			}
		}
	case 7:
		if len(q.consumers) < 3 {
			q.consumers, what = append(q.consumers, &modelConsumer{prefetch: q.prefetch}), "join"
		}
	case 8:
		if n := len(q.consumers); n > 0 && q.IntN(2) == 0 {
			left := q.consumers[n-1]
			q.consumers, what = q.consumers[:n-1], "leave"
			for _, m := range q.messages {
				if m.holder == left {
					m.holder, m.ready = nil, true
				}
			}
		}
	}
	q.now = q.now.Add(time.Duration(q.IntN(800)) * time.Millisecond)
	figures := modelFigures{at: q.now, ready: q.ready(), unacknowledged: q.count(func(m *modelMessage) bool { return m.holder != nil })}
	for _, c := range q.consumers {
		figures.prefetch = append(figures.prefetch, c.prefetch)
	}
	q.statistics = append(q.statistics, figures)
	q.events = append(q.events, fmt.Sprintf("%s %s: ready %d, unacknowledged %d, held %d", q.now.Format("05.000"), what, figures.ready, figures.unacknowledged, q.held()))
}

// LeastNow returns a lower bound of the database's time, which never goes back.
func (q *slotModel) LeastNow() time.Time {
	if least := q.now.Add(-time.Duration(q.IntN(100)) * time.Millisecond); least.After(q.least) {
		q.least = least
	}
	return q.least
}

func (q *slotModel) SentMessages(context.Context, string) (int, error) { return 0, nil }

func (q *slotModel) QueueLedgers(_ context.Context, observed ...ledger.QueueObserved) ([]ledger.QueueLedger, error) {
	l := ledger.QueueLedger{Outgoing: q.count(func(m *modelMessage) bool { return m.outgoing })}
	for _, at := range q.deliveries {
		switch {
		case at.Before(observed[0].Since):
		case at.Before(observed[0].Asked):
			l.Before++
		default:
			l.After++
		}
	}
	return []ledger.QueueLedger{l}, nil
}

// boundOracle asks a management API that says what it is told to.
type boundOracle struct {
	inspector *celery.QueueInspector
	figures   modelFigures
}

const modelAge = 12 * time.Second

func newBoundOracle(t *testing.T) *boundOracle {
	o := &boundOracle{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var consumers []string
		for _, prefetch := range o.figures.prefetch {
			consumers = append(consumers, fmt.Sprintf(`{"ack_required": true, "prefetch_count": %d}`, prefetch))
		}
		_, _ = fmt.Fprintf(w, `{"messages_ready": %d, "messages_unacknowledged": %d, "consumer_details": [%s]}`, o.figures.ready, o.figures.unacknowledged, strings.Join(consumers, ", "))
	}))
	t.Cleanup(api.Close)
	o.inspector = celery.NewQueueInspector(celery.Broker{}, api.URL, celery.InspectorOptions{Logger: slog.New(slog.DiscardHandler), StatsAge: modelAge})
	t.Cleanup(func() { _ = o.inspector.Close() })
	return o
}

// run plays a history with some claims. It returns an error if a claim counts less than the queue holds.
func (o *boundOracle) run(ctx context.Context, q *slotModel) error {
	const limit = 8
	steps := func(n int) {
		for range q.IntN(n) {
			q.step()
		}
	}
	for range 4 {
		steps(20)
		asked := q.LeastNow()
		for o.figures = (modelFigures{}); ; {
			past := q.statistics[max(0, len(q.statistics)-30):]
			if len(past) == 0 {
				break
			}
			if o.figures = past[q.IntN(len(past))]; !o.figures.at.Before(q.now.Add(-modelAge)) {
				break
			}
			q.statistics = append(q.statistics, past[len(past)-1])
			q.statistics[len(q.statistics)-1].at = q.now
		}
		figures := o.inspector.Figures(ctx, "q")
		figures.Asked = asked
		steps(6)
		observed := celery.Observation{Figures: figures, Asked: q.LeastNow(), Exists: true, Ready: q.ready(), Consumers: len(q.consumers)}
		steps(6) // and waits for the lock
		counts, err := countMessages(ctx, q, observations{"q": observed}, "q")
		if err != nil {
			return err
		}
		if held := q.held(); counts[0].total() < held {
			return fmt.Errorf("counted %+v of %d messages, with the statistics of %s and %+v\n%s", counts[0], held, o.figures.at.Format("05.000"), observed, strings.Join(q.events, "\n"))
		}
		q.claim(freeSlots(limit, counts[0].total()))
		if held := q.held(); held > limit {
			return fmt.Errorf("%d messages are held, of %d", held, limit)
		}
	}
	return nil
}

func newSlotModel(r *rand.Rand) *slotModel {
	prefetch := r.IntN(4)
	return &slotModel{Rand: r, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), prefetch: prefetch, consumers: []*modelConsumer{{prefetch: prefetch}}}
}

// A claim never counts less than a queue holds, whatever happens between the observation, the lock and the count.
// In the model, as in the documentation, a redelivered message stays the same message.
func TestCountsAreUpperBounds(t *testing.T) {
	t.Parallel()
	o := newBoundOracle(t)
	r := seed.Rand(t)
	for n := range 3000 {
		if err := o.run(t.Context(), newSlotModel(r)); err != nil {
			t.Fatalf("history %d: %v", n, err)
		}
	}
}

// The model fails without the record of ends that precede their confirmation.
func TestBoundNeedsTheRecordOfEnds(t *testing.T) {
	t.Parallel()
	o := newBoundOracle(t)
	r := seed.Rand(t)
	for range 3000 {
		q := newSlotModel(r)
		q.unrecordedEnds = true
		if o.run(t.Context(), q) != nil {
			return
		}
	}
	t.Error("no history counts too little although ends aren't recorded")
}
