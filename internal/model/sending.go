package model

import "time"

// SendingSince has the times since when runners of this program send tasks with priority (true) and without (false). A
// kind that they never sent is missing.
type SendingSince map[bool]time.Time

// Sent reports whether a run was sent after the time in s, or before the other moment, so that it may be given up as
// lost. If s is empty, it is true for each run.
func (s SendingSince) Sent(scheduled *time.Time, withPriority bool, before time.Time) bool {
	if len(s) == 0 || !before.IsZero() && (scheduled == nil || scheduled.Before(before)) {
		return true
	}
	since, known := s[withPriority]
	return known && scheduled != nil && !scheduled.Before(since)
}
