package listener

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
)

// maxUUID is above the length of any task id that Celery makes (36).
const maxUUID = 255

// read adds what a message says to a batch.
func (l *Listener) read(b *batch, d celery.Delivery) {
	heard := l.Store.Now()
	b.messages++
	b.bytes += len(d.Body)
	b.last = d
	if d.Oversized {
		l.complain(TooLarge, fmt.Sprintf("more than %d bytes: %s", len(d.Body), excerpt(string(d.Body[:excerptLength]), excerptLength)))
		return
	}
	events, err := celery.DecodeEvents(d.Body, d.ContentType)
	bad, ok := errors.AsType[celery.EventErrors](err)
	switch {
	case ok:
		for _, e := range bad {
			l.complain(BadEvent, fmt.Sprintf("%v: %s", e.Err, excerpt(string(e.Raw), excerptLength)))
		}
	case err != nil:
		l.complain(BadBody, err.Error())
	}
	b.events += len(events)
	for _, e := range events {
		if e.UUID != "" { // of a task; others the Python scheduler doesn't count
			l.metrics.event(e.Type)
		}
		if sent := eventTime(e, heard, func(Problem, string) {}); sent > 0 {
			l.metrics.lag.read(sent)
		}
		l.readEvent(b, e, heard)
	}
}

func (l *Listener) readEvent(b *batch, e celery.Event, heard time.Time) {
	switch {
	case e.UUID == "" && !truthy(e.Fields["uuid"]):
		if worker, ok := text(e.Fields["hostname"]); ok {
			var active int
			_ = json.Unmarshal(e.Fields["active"], &active) // 0 if it says none
			l.workers.hear(e.Type, worker, active, heard)
		}
		return
	case e.UUID == "", len(e.UUID) > maxUUID, strings.ContainsRune(e.UUID, 0):
		l.complain(BadUUID, string(e.Fields["uuid"]))
		return
	}
	var last string // what is wrong with the event
	o, verdict := interpret(e, heard, func(p Problem, detail string) {
		l.complain(p, detail)
		last = fmt.Sprintf("%s: %s", p, detail)
	})
	switch verdict {
	case accepted:
		l.metrics.outcome(o)
		if worker, ok := text(e.Fields["hostname"]); ok && o.End != nil {
			l.workers.end(worker, e.UUID, o.End.Status != model.RunEventful && o.End.Status != model.RunUneventful, heard)
		}
		b.outcomes = append(b.outcomes, o)
	case rejected:
		b.reject(o, e.Type, "", last)
	}
}

// excerptLength bounds what is logged of what was wrong, in bytes.
const excerptLength = 200

// complain counts what is wrong with an event, and logs it if nothing of its kind
// was logged within a minute.
func (l *Listener) complain(p Problem, detail string) {
	l.metrics.malformed.WithLabelValues(string(p)).Inc()
	if held, ok := l.complaints.Log(string(p)); ok {
		l.Log.Warn("event not understood", "problem", string(p), "detail", excerpt(detail, excerptLength), "not_logged_before", held)
	}
}

// excerpt returns at most n bytes of text, cut between characters.
func excerpt(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
