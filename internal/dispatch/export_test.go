package dispatch

import (
	"context"
	"time"
)

// SetNow replaces the clock of a Deliverer.
func (d *Deliverer) SetNow(now func() time.Time) { d.now = now }

// Unanswered returns the number of messages that the broker has not answered for.
func (d *Deliverer) Unanswered() int { return d.backOff.waiting() }

// Round does a round of Run, of messages that are not urgent.
func (d *Deliverer) Round(ctx context.Context, over <-chan time.Time) (Delivered, bool, error) {
	return d.round(ctx, d.streams[1], over)
}

// SetNow replaces the clock of a Slots.
func (s *Slots) SetNow(now func() time.Time) { s.now = now }
