package monitor

import (
	"slices"

	"swh-scheduler/sql/origins"
)

// maxHintSources is the most sources of hints with series of their own; the others have the source "others".
const maxHintSources = 50

// setHints sets the counts of sources of hints. Those with the most hints have series of their own.
func (m *Monitor) setHints(sources []origins.HintSource) {
	received := func(s origins.HintSource) int64 {
		return s.Moved + s.Newer + s.Repeated + s.Unknown + s.Created + s.Disabled + s.Refused
	}
	slices.SortStableFunc(sources, func(a, b origins.HintSource) int { return int(min(1, max(-1, received(b)-received(a)))) })
	for i, s := range sources {
		name := s.Source
		if i >= maxHintSources {
			name = "others"
		}
		for result, n := range map[string]int64{
			"moved": s.Moved, "newer": s.Newer, "repeated": s.Repeated, "unknown": s.Unknown, "created": s.Created, "disabled": s.Disabled, "refused": s.Refused,
		} {
			m.hints.WithLabelValues(name, result).Add(float64(n))
		}
		m.hintVisits.WithLabelValues(name, "found").Add(float64(s.Found))
		m.hintVisits.WithLabelValues(name, "same").Add(float64(s.Visits - s.Found))
	}
}
