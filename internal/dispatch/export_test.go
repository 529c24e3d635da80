package dispatch

import "time"

// SetNow replaces the clock of slots.
func (s *Slots) SetNow(now func() time.Time) { s.now = now }
