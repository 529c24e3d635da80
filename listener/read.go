package listener

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

// maxUUID is above the length of any task id that Celery makes (36).
const maxUUID = 255

// maxMessageEvents is above the number of events that a worker puts into one message: Celery's are 24 at most. A
// message with more is read whole at its first delivery. If it comes again, it may have ended a listener, and is set
// aside.
const maxMessageEvents = 10_000

// reading is a message of which a part of the events has been read.
type reading struct {
	celery.Delivery
	opened   bool
	received time.Time
	events   *celery.Events // nil at the end of the message
}

// read adds the events of a message to a batch. When the batch has enough events, l.unread is the rest of the
// message.
func (l *Listener) read(b *batch, d celery.Delivery) {
	b.messages++
	b.bytes += len(d.Body)
	l.unread = &reading{Delivery: d}
	l.readOn(b)
}

// readOn continues with l.unread. A fault of the program sets aside the event that causes it or, if that event is
// unknown, the rest of the message.
func (l *Listener) readOn(b *batch) {
	m := l.unread
	if !m.opened {
		m.opened = true
		_ = l.recovering(b, m, "", m.Body, func() error { return l.open(b, m) })
	}
	for m.events != nil {
		if b.events >= maxEvents && m.events.More() {
			return
		}
		l.readNext(b, m)
	}
	l.unread, b.last = nil, &m.Delivery
}

// readNext reads one event. At the end of the message m.events is nil.
func (l *Listener) readNext(b *batch, m *reading) {
	var e celery.Event
	err := l.recovering(b, m, "", m.Body, func() (err error) { e, err = m.events.Next(); return err })
	bad, isBad := errors.AsType[*celery.EventError](err)
	switch {
	case isBad:
		raw := bad.Raw[:min(len(bad.Raw), excerptLength+1)]
		l.complain(BadEvent, fmt.Sprintf("%v: %s", bad.Err, excerpt(string(raw), excerptLength)))
	case err != nil: // the end of the message
		m.events = nil
		return
	default:
		_ = l.recovering(b, m, e.UUID, e.Raw, func() error { l.readEvent(b, e, m.received); return nil })
	}
	b.events++
}

// recovering calls do. If do panics, recovering sets text aside: an event of a task or, if id is empty, the message.
func (l *Listener) recovering(b *batch, m *reading, id string, text []byte, do func() error) error {
	err := service.Recover(do)
	if fault, ok := errors.AsType[*service.PanicError](err); ok {
		l.fault(fault)
		b.setAside(m, id, text, fault.Error())
	}
	return err
}

// fault counts and reports a fault of the program.
func (l *Listener) fault(fault *service.PanicError) {
	l.metrics.malformed.WithLabelValues(string(Panicked)).Inc()
	if held, ok := l.complaints.Log(string(Panicked)); ok {
		l.Log.Error("an event met a fault of the program and is set aside; please report the fault",
			"error", fault, "stack", string(fault.Stack), "not_logged_before", held)
	}
}

// open prepares a message for reading.
func (l *Listener) open(b *batch, m *reading) error {
	m.received = l.Store.Now()
	if m.Oversized {
		l.complain(TooLarge, fmt.Sprintf("more than %d bytes: %s", len(m.Body), excerpt(string(m.Body[:excerptLength]), excerptLength)))
		return nil
	}
	events, err := celery.ReadEvents(m.Body, m.ContentType)
	if err != nil {
		l.complain(BadBody, err.Error())
		return nil
	}
	if m.Redelivered && len(m.Body) > maxMessageEvents && tooMany(m.Body, m.ContentType) {
		reason := fmt.Sprintf("%d bytes with more than %d events, delivered again", len(m.Body), maxMessageEvents)
		l.complain(TooMany, reason)
		b.setAside(m, "", m.Body, reason)
		return nil
	}
	m.events = events
	return nil
}

// tooMany reports whether a message has more events than maxMessageEvents.
func tooMany(body []byte, contentType string) bool {
	events, err := celery.ReadEvents(body, contentType)
	if err != nil {
		return false
	}
	for range maxMessageEvents + 1 {
		if _, err := events.Next(); err == io.EOF {
			return false
		}
	}
	return true
}

func (l *Listener) readEvent(b *batch, e celery.Event, received time.Time) {
	if e.UUID != "" { // only events of tasks: the Python scheduler counts no others
		l.metrics.event(e.Type)
	}
	if sent := eventTime(e, received, func(Problem, string) {}); sent > 0 {
		l.metrics.lag.read(b.turn.number, sent)
	}
	switch {
	case e.UUID == "" && !truthy(e.Fields["uuid"]):
		if worker, ok := text(e.Fields["hostname"]); ok {
			var active int
			_ = json.Unmarshal(e.Fields["active"], &active) // 0 without the field
			l.workers.record(e.Type, worker, active, received)
		}
		return
	case e.UUID == "", len(e.UUID) > maxUUID, strings.ContainsRune(e.UUID, 0):
		l.complain(BadUUID, string(e.Fields["uuid"]))
		return
	}
	var last string // the last error of the event
	o, verdict := interpret(e, received, func(p Problem, detail string) {
		l.complain(p, detail)
		last = fmt.Sprintf("%s: %s", p, detail)
	})
	switch verdict {
	case accepted:
		l.metrics.outcome(o)
		if worker, ok := text(e.Fields["hostname"]); ok && o.End != nil {
			o.End.Worker = worker
			l.workers.end(worker, e.UUID, o.End.Status != model.RunEventful && o.End.Status != model.RunUneventful, received)
		}
		b.outcomes = append(b.outcomes, o)
	case rejected:
		b.reject(o, e.Type, "", last)
	}
}

// excerptLength bounds the logged part of an error, in bytes.
const excerptLength = 200

// complain counts an error of an event. It logs the error if it logged none of that kind within a minute.
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
