package service

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Pulse reports the progress of a loop. It reports to the daemon's Health, if there is one, when a round begins,
// goes on and ends, and to the log when rounds begin to fail and when they succeed again. A nil Pulse reports
// nothing.
type Pulse struct {
	health  *Health
	name    string // name of the loop's work
	trouble trouble
	beside  bool // optional: the daemon is alive and ready without the loop
	awaited bool // the daemon is not ready before a first successful round
	call    bool // a single call, not a loop

	since time.Time // when the present round began or went on; zero between rounds
	due   time.Time // when the next successful round should have ended; zero if none is due
	last  time.Time // when the last successful round ended
}

// Pulse adds a loop by the name of its work, such as "claiming tasks". The daemon counts as
// stuck while one of its rounds doesn't go on for 15 minutes, and as not ready while they fail.
func (h *Health) Pulse(log *slog.Logger, name string) *Pulse { return h.add(newPulse(log, name)) }

func newPulse(log *slog.Logger, name string) *Pulse {
	return &Pulse{name: name, trouble: trouble{
		log: log, begins: name + " failed; will be tried again", lasts: name + " failed again", ends: name + " works again",
	}}
}

func (h *Health) add(p *Pulse) *Pulse {
	if h != nil {
		p.health = h
		h.locked(func() { h.pulses[p] = true })
	}
	return p
}

// note changes the state of the loop, under the lock of the daemon's Health.
func (p *Pulse) note(change func()) {
	if p != nil && p.health != nil {
		p.health.locked(change)
	}
}

// Begin reports that a round begins, or goes on.
func (p *Pulse) Begin() {
	p.note(func() {
		p.since = p.health.now()
		if p.due.IsZero() && !p.call {
			p.due = p.since
		}
	})
}

// Failed reports that a round has ended with an error and will be tried again. A cancelled round is not logged.
func (p *Pulse) Failed(err error) {
	p.note(func() { p.since = time.Time{} })
	if p != nil && !errors.Is(err, context.Canceled) {
		p.trouble.Failed(err)
	}
}

// Done reports that a round has succeeded. The next one is due after the given time; 0 is at no set time.
func (p *Pulse) Done(next time.Duration) {
	p.note(func() {
		if !p.since.IsZero() {
			p.last = p.health.now()
		}
		p.since, p.due = time.Time{}, time.Time{}
		if next > 0 {
			p.due = p.health.now().Add(next)
		}
	})
	if p != nil {
		p.trouble.OK()
	}
}

// Remove removes a loop that has ended.
func (p *Pulse) Remove() {
	p.note(func() { delete(p.health.pulses, p) })
}

// Call reports that a call begins. The daemon counts as stuck if done is not called within 15
// minutes.
func (h *Health) Call(name string) (done func()) {
	p := h.add(&Pulse{name: name, call: true})
	p.Begin()
	return p.Remove
}
