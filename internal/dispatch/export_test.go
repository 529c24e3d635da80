package dispatch

import "time"

// SetNow replaces the clock of a Deliverer.
func (d *Deliverer) SetNow(now func() time.Time) { d.now = now }
