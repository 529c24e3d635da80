package model

import "time"

// VisitRules are the journal client's rules: how a visit moves an origin in the queue of its visit type, and which
// visits disable it until a lister lists it again.
type VisitRules struct {
	// Intervals are the distances by which a visit moves an origin, by the origin's offset; greater offsets have the
	// last interval. A visit that finds nothing adds 1 to the offset, up to the last one. A visit that finds changes
	// subtracts 2. The first visit keeps the offset (DefaultPositionOffset).
	Intervals []time.Duration `yaml:"intervals,flow"`
	// Fudge is the largest random change of an interval, as a fraction of it, to spread the origins of a host.
	Fudge float64 `yaml:"fudge"`
	// DisableAfter is the number of consecutive visits that all fail, or all find nothing, after which an origin is
	// disabled.
	DisableAfter int `yaml:"disable_after"`
	// DisableAfterMixed is the same for visits that fail or find nothing in any mixture; 0: unlimited.
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
