package listener

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"swh-scheduler/celery"
)

// maxUUID is above the length of any task id that Celery makes (36).
const maxUUID = 255

// read adds what a message says to a batch.
func (l *Listener) read(b *batch, d celery.Delivery) {
	heard := time.Now()
	b.messages++
	b.bytes += len(d.Body)
	b.last = d
	if d.Oversized {
		l.complaints.note(TooLarge, fmt.Sprintf("more than %d bytes: %s", len(d.Body), excerpt(string(d.Body[:excerptLength]), excerptLength)))
		return
	}
	events, err := celery.DecodeEvents(d.Body, d.ContentType)
	var bad celery.EventErrors
	switch {
	case errors.As(err, &bad):
		for _, e := range bad {
			l.complaints.note(BadEvent, fmt.Sprintf("%v: %s", e.Err, excerpt(string(e.Raw), excerptLength)))
		}
	case err != nil:
		l.complaints.note(BadBody, err.Error())
	}
	b.events += len(events)
	for _, e := range events {
		l.metrics.event(e.Type)
		if sent := eventTime(e, heard, func(Problem, string) {}); sent > 0 {
			l.metrics.lag.Set(max(0, float64(heard.UnixMicro())/1e6-sent))
		}
		l.readEvent(b, e, heard)
	}
}

func (l *Listener) readEvent(b *batch, e celery.Event, heard time.Time) {
	switch {
	case e.UUID == "" && !truthy(e.Fields["uuid"]):
		if worker, ok := text(e.Fields["hostname"]); ok {
			l.workers.hear(e.Type, worker, heard)
		}
		return
	case e.UUID == "", len(e.UUID) > maxUUID, strings.ContainsRune(e.UUID, 0):
		l.complaints.note(BadUUID, string(e.Fields["uuid"]))
		return
	}
	var last string // what is wrong with the event
	o, verdict := interpret(e, heard, func(p Problem, detail string) {
		l.complaints.note(p, detail)
		last = fmt.Sprintf("%s: %s", p, detail)
	})
	switch verdict {
	case accepted:
		l.metrics.outcome(o)
		b.outcomes = append(b.outcomes, o)
	case rejected:
		b.reject(o, e.Type, "", last)
	}
}
