package model

import "time"

// VisitRules say how visits move an origin in the queue of its visit type, and when they
// disable it until a lister sees it again. The journal client applies them.
type VisitRules struct {
	// Intervals are how far a visit moves an origin, by its offset; a greater offset has the
	// last one. A visit without news adds 1 to the offset, up to the last one, one with news
	// takes 2 off, a first visit keeps it (DefaultPositionOffset).
	Intervals []time.Duration `yaml:"intervals,flow"`
	// Fudge is the largest random share by which an interval is longer or shorter, so that
	// the origins of one host spread out.
	Fudge float64 `yaml:"fudge"`
	// DisableAfter is how many visits in a row that fail, or that find nothing, disable an origin.
	DisableAfter int `yaml:"disable_after"`
	// DisableAfterMixed is how many visits in a row disable an origin that fail or find
	// nothing, in any mixture; 0: any number doesn't.
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
