package service

import "time"

// Pulse shows whether a loop of the daemon turns: it tells the daemon's Health when a round
// begins, goes on and ends. The nil value ignores all of it.
type Pulse struct {
	health *Health
	name   string
	beside bool // the daemon is alive without it
	call   bool // no loop

	since time.Time // when the round it is in last went on; zero between rounds
	due   time.Time // when the next good round should have ended; zero if none is due
	last  time.Time // when the last good round ended
}

// Pulse adds a loop. The daemon counts as stuck while one of its rounds doesn't go on for
// 15 minutes.
func (h *Health) Pulse(name string) *Pulse { return h.add(Pulse{name: name}) }

func (h *Health) add(p Pulse) *Pulse {
	if h == nil {
		return nil
	}
	p.health = h
	h.locked(func() { h.pulses[&p] = true })
	return &p
}

// Begin says that a round begins, or goes on.
func (p *Pulse) Begin() {
	if p == nil {
		return
	}
	p.health.locked(func() {
		p.since = p.health.now()
		if p.due.IsZero() && !p.call {
			p.due = p.since
		}
	})
}

// Failed says that a round has ended, and that it will be tried again.
func (p *Pulse) Failed() {
	if p != nil {
		p.health.locked(func() { p.since = time.Time{} })
	}
}

// Done says that a round has ended well. The next one is due after some time; 0: when there
// is something to do.
func (p *Pulse) Done(next time.Duration) {
	if p == nil {
		return
	}
	p.health.locked(func() {
		if !p.since.IsZero() {
			p.last = p.health.now()
		}
		p.since, p.due = time.Time{}, time.Time{}
		if next > 0 {
			p.due = p.health.now().Add(next)
		}
	})
}

// Gone says that the loop has ended.
func (p *Pulse) Gone() {
	if p != nil {
		p.health.locked(func() { delete(p.health.pulses, p) })
	}
}

// Call says that a call begins. The daemon counts as stuck if done is not called within 15
// minutes.
func (h *Health) Call(name string) (done func()) {
	p := h.add(Pulse{name: name, call: true})
	p.Begin()
	return p.Gone
}
