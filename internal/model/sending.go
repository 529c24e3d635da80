package model

import "time"

// Sending is since when runners of this program send, by whether the tasks have a priority; a kind
// that none of them ever sent is missing.
type Sending map[bool]time.Time

// Sent reports whether a run was sent since then, or before the other moment, so that it may be
// given up as lost. If none of them ever sent anything, each run may.
func (s Sending) Sent(scheduled *time.Time, withPriority bool, before time.Time) bool {
	if len(s) == 0 || !before.IsZero() && (scheduled == nil || scheduled.Before(before)) {
		return true
	}
	since, known := s[withPriority]
	return known && scheduled != nil && !scheduled.Before(since)
}
