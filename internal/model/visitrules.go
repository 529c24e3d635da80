package model

import "time"

// VisitRules say how visits move an origin in the queue of its visit type, and which visits
// disable it until a lister sees it again. The journal client applies them.
type VisitRules struct {
	// Intervals are how far a visit moves an origin, by the origin's offset; greater offsets have the
	// last interval. A visit that finds nothing adds 1 to the offset, up to the last one. A visit that finds changes
	// subtracts 2. The first visit keeps it (DefaultPositionOffset).
	Intervals []time.Duration `yaml:"intervals,flow"`
	// Fudge is the largest part by which an interval is made longer or shorter at random, to spread the origins
	// of a host.
	Fudge float64 `yaml:"fudge"`
	// DisableAfter is how many visits in a row that all fail, or all find nothing, disable an origin.
	DisableAfter int `yaml:"disable_after"`
	// DisableAfterMixed is how many visits in a row that fail or find nothing, in any mixture, disable an origin;
	// 0: no number does.
	DisableAfterMixed int `yaml:"disable_after_mixed,omitempty"`
}

const days = 24 * time.Hour

// DefaultVisitRules are the Python scheduler's.
var DefaultVisitRules = VisitRules{
	Intervals: []time.Duration{1 * days, 1 * days, 2 * days, 2 * days, 2 * days, 4 * days, 16 * days, 64 * days, 256 * days, 1024 * days, 4096 * days},
	Fudge:     0.1, DisableAfter: 3,
}

// LastOffset returns the offset of the last interval.
func (r VisitRules) LastOffset() int32 { return int32(len(r.Intervals)) - 1 }

// Interval returns the interval of an offset.
func (r VisitRules) Interval(offset int32) time.Duration {
	return r.Intervals[max(0, min(offset, r.LastOffset()))]
}
