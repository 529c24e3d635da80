package dispatch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/sql/db"
)

// ledgerOf is a ledger with these counts of a queue.
type ledgerOf struct{ outgoing, recent, sent int }

func (l ledgerOf) QueueLedgers(context.Context, time.Time, ...string) ([]db.QueueLedger, error) {
	return []db.QueueLedger{{Outgoing: l.outgoing, Recent: l.recent}}, nil
}

func (l ledgerOf) SentMessages(context.Context, string) (int, error) { return l.sent, nil }

// lengthOf is a broker that says this of a queue.
type lengthOf celery.QueueLength

func (lengthOf) Figures(context.Context, string) celery.QueueFigures { panic("not asked") }

func (l lengthOf) LengthSince(_ context.Context, _ string, _ celery.QueueFigures, recent int) (celery.QueueLength, error) {
	if !l.Unknown {
		l.Unacknowledged += recent
	}
	return celery.QueueLength(l), nil
}

// What the broker tells of a queue counts, with what is outgoing. What workers have, if it is
// unknown, is what was sent and has not ended, unless all of that was delivered of late: then
// the queue may be new.
func TestMessagesOfAQueue(t *testing.T) {
	inspector := celery.NewQueueInspector(celery.Broker{}, "http://127.0.0.1:1", celery.InspectorOptions{Logger: slog.New(slog.DiscardHandler)})
	figures := inspector.Figures(t.Context(), "q")
	if err := inspector.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ledger ledgerOf
		broker lengthOf
		want   int
	}{
		"known":                         {ledgerOf{5, 3, 100}, lengthOf{Ready: 4, Unacknowledged: 2}, 5 + 4 + 2 + 3},
		"unknown":                       {ledgerOf{5, 3, 100}, lengthOf{Ready: 4, Unknown: true}, 5 + 100},
		"unknown, more is ready":        {ledgerOf{5, 3, 100}, lengthOf{Ready: 200, Unknown: true}, 5 + 200},
		"unknown, all delivered lately": {ledgerOf{5, 10, 10}, lengthOf{Ready: 4, Unknown: true}, 5 + 4},
	} {
		counts, err := countMessages(t.Context(), c.ledger, c.broker, map[string]celery.QueueFigures{"q": figures}, "q")
		if err != nil || counts[0].total() != c.want {
			t.Errorf("%s: %+v, %v; want %d messages", name, counts, err, c.want)
		}
	}
}

// Figures from before the deliveries that the ledger remembers are refused: what was delivered
// since would not be counted.
func TestFiguresThatAreTooOld(t *testing.T) {
	old := map[string]celery.QueueFigures{"q": {}} // of the year 1
	if counts, err := countMessages(t.Context(), ledgerOf{}, lengthOf{}, old, "q"); err == nil {
		t.Errorf("counted %+v", counts)
	}
}
