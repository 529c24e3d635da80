package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/sql/ledger"
)

// ledgerOf is a ledger with these counts of a queue.
type ledgerOf struct{ outgoing, before, after, sent int }

func (l ledgerOf) LeastNow() time.Time { return time.Now() }

func (l ledgerOf) QueueLedgers(context.Context, ...ledger.QueueObserved) ([]ledger.QueueLedger, error) {
	return []ledger.QueueLedger{{Outgoing: l.outgoing, Before: l.before, After: l.after}}, nil
}

func (l ledgerOf) SentMessages(context.Context, string) (int, error) { return l.sent, nil }

// figuresOf returns figures of a management API that answers so: with 404 if ready is below 0, and without
// counts if unacknowledged is.
func figuresOf(t testing.TB, ready, unacknowledged int) celery.QueueFigures {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case ready < 0:
			w.WriteHeader(http.StatusInternalServerError)
		case unacknowledged < 0:
			_, _ = fmt.Fprint(w, "{}")
		default:
			_, _ = fmt.Fprintf(w, `{"messages_ready": %d, "messages_unacknowledged": %d, "consumer_details": [{"ack_required": true}]}`, ready, unacknowledged)
		}
	}))
	defer api.Close()
	inspector := celery.NewQueueInspector(celery.Broker{}, api.URL, celery.InspectorOptions{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = inspector.Close() }()
	return inspector.Figures(t.Context(), "q")
}

// A queue's messages are the broker's counts plus outgoing ones. If the unacknowledged count is unknown, sent
// messages without an end count instead, unless all were delivered recently: then the queue may be new.
func TestMessagesOfAQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ledger                    ledgerOf
		pastReady, unacknowledged int // by the management API
		ready                     int
		want                      int
	}{
		"known":                         {ledgerOf{5, 3, 0, 100}, 4, 2, 4, 5 + 4 + 2 + 3},
		"known, nothing has moved":      {ledgerOf{5, 3, 0, 100}, 1, 2, 4, 5 + 4 + 2},
		"known, delivered since":        {ledgerOf{5, 3, 7, 100}, 4, 2, 4, 5 + 4 + 2 + 3 + 7},
		"unknown":                       {ledgerOf{5, 3, 0, 100}, 0, -1, 4, 5 + 100},
		"unknown, more is ready":        {ledgerOf{5, 3, 0, 100}, 0, -1, 200, 5 + 200},
		"unknown, all delivered lately": {ledgerOf{5, 10, 0, 10}, 0, -1, 10, 5 + 10},
		"unknown, delivered since":      {ledgerOf{5, 3, 10, 100}, 0, -1, 4, 5 + 100},
		"no answer":                     {ledgerOf{5, 3, 0, 100}, -1, 0, 4, 5 + 100},
		"no answer, nothing sent":       {ledgerOf{5, 3, 1, 0}, -1, 0, 4, 5 + 4 + 3 + 1},
	} {
		o := celery.Observation{Figures: figuresOf(t, c.pastReady, c.unacknowledged), Asked: time.Now(), Exists: true, Ready: c.ready, Consumers: 1}
		counts, err := countMessages(t.Context(), c.ledger, observations{"q": o}, "q")
		if err != nil || counts[0].total() != c.want {
			t.Errorf("%s: %+v, %v; want %d messages", name, counts, err, c.want)
		}
	}
}

// Statistics from before the ledger's recorded deliveries are refused, because later deliveries would not be
// counted. So are statistics dated after the claim, when the database's clock was set back.
func TestFiguresThatAreTooOld(t *testing.T) {
	t.Parallel()
	for _, asked := range []time.Time{{}, time.Now().Add(-2 * ledger.DeliveriesKept), time.Now().Add(time.Minute)} {
		if counts, err := countMessages(t.Context(), ledgerOf{}, observations{"q": {Asked: asked}}, "q"); err == nil {
			t.Errorf("asked at %s, and counted %+v", asked, counts)
		}
	}
}
