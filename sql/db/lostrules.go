package db

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

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

// LostRules returns how lost runs are looked for: after how long a silence, by task type, and by
// which moments of Sending.Sent.
func LostRules(after map[string]time.Duration, s Sending, before time.Time) SilentRuns {
	var b strings.Builder
	for _, taskType := range slices.Sorted(maps.Keys(after)) {
		fmt.Fprintf(&b, "%s=%s ", taskType, after[taskType])
	}
	for _, withPriority := range []bool{false, true} {
		fmt.Fprintf(&b, "%s ", s[withPriority].UTC().Format(time.RFC3339Nano))
	}
	b.WriteString(before.UTC().Format(time.RFC3339Nano))
	return SilentRuns{Rules: b.String(), After: maps.Clone(after), Before: before}
}
