package freshness

import (
	"time"

	"swh-scheduler/internal/model"
)

// A visit dated before firstDate, or at lastDate or later, is ignored: some clock was wrong. The
// database ignores such dates, too (scheduler_go.last_seen_fresh).
var firstDate, lastDate = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// History is what is known of a listed origin. A zero time is unknown.
type History struct {
	Estimate      Estimate      // of how often it changes; zero: nothing was observed yet
	Prior         Estimate      // that of its lister's origins, or of all of its visit type
	Cost, Typical time.Duration // what a visit of it takes, and one of its visit type
	Seen          time.Time     // its last successful visit
	// If its lister reports updates: Updated is the last update that is part of Estimate, and Known is
	// the end of the time that Estimate covers.
	Updated, Known time.Time

	FirstSeen, LastSeen time.Time     // by its lister; LastSeen is the last listing's end if that is later
	LastUpdate          time.Time     // as its lister reports it now; zero if it reports none
	Listing             time.Duration // between two listings of its lister
	Fork                bool
	Threshold           float64       // that its moment is computed with
	Longest             time.Duration // that it waits for a visit
}

// Visited updates the estimate after a successful visit at a moment after Seen; changed is whether it
// found something new. It returns how likely that was by the estimate before. known is false for a
// first visit, which has nothing to compare with, and for one after an update that the lister
// reported: the estimate then learns from the report instead.
func (h *History) Visited(at time.Time, changed bool) (chance float64, known bool) {
	if !at.After(h.Seen) || at.Before(firstDate) || !at.Before(lastDate) {
		return 0, false
	}
	h.Listed()
	since := h.Seen
	if h.HasUpdates() {
		since = h.Known
	}
	if h.Seen.IsZero() {
		h.Known = at
	} else if !h.stale() {
		outcome := Unchanged
		if changed {
			outcome = Changed
		}
		chance, known = h.Origin(at).Chance(at.Sub(h.Seen)), true
		h.Estimate = h.Estimate.Observe(h.prior(at), at.Sub(since), outcome)
		h.Known = later(h.Known, at)
	}
	h.Seen = at
	return chance, known
}

// Listed updates the estimate if the lister has reported an update after Updated, and reports whether
// it has.
func (h *History) Listed() bool {
	if !h.HasUpdates() || !h.LastUpdate.After(h.Updated) {
		return false
	}
	if h.Updated.IsZero() { // the first report: the time since the update before it is unknown
		h.Known = h.Seen
	} else {
		h.Estimate = h.Estimate.WithReports(h.prior(h.LastSeen), h.LastSeen.Sub(h.Known), h.LastSeen.Sub(h.LastUpdate), h.Listing)
		h.Known = later(h.Known, h.LastSeen)
	}
	h.Updated = h.LastUpdate
	return true
}

// HasUpdates reports whether the lister reports updates of the origin.
func (h *History) HasUpdates() bool { return !h.LastUpdate.IsZero() }

// stale reports whether the last update that the lister reports may have come after the last successful visit, as far as
// its date tells.
func (h *History) stale() bool { return h.HasUpdates() && model.UpdateEnds(h.LastUpdate).After(h.Seen) }

// passes returns when the time has passed that the date of the last update may mean, if the last successful visit was in it.
// A visit before that can't tell whether it sees the update. Otherwise passes returns the zero time.
func (h *History) passes() time.Time {
	if !h.stale() || h.LastUpdate.After(h.Seen) {
		return time.Time{}
	}
	return model.UpdateEnds(h.LastUpdate)
}

// prior returns the estimate for an origin of which nothing was observed, as of a moment.
func (h *History) prior(at time.Time) Estimate {
	f := Facts{Lister: h.Prior, Fork: h.Fork, Age: at.Sub(h.FirstSeen)}
	if h.HasUpdates() {
		f.SinceUpdate = at.Sub(h.LastUpdate)
	}
	return f.Prior()
}

// UselessVisits is what a visit that finds nothing costs beside its time, in typical visits.
const UselessVisits = 5

// Origin returns what the formulas need of the origin, as of its last visit. If its
// lister reports updates, it is expected to list as often as it did. The time since its last listing
// counts instead once that is longer: a lister that has stopped says nothing of changes since.
func (h *History) Origin(now time.Time) Origin {
	of := Origin{Estimate: h.Estimate.Or(h.prior(h.Seen)), Cost: h.Cost, Useless: UselessVisits * h.Typical}
	if h.HasUpdates() {
		of.Listing, of.Updated = max(h.Listing, now.Sub(h.LastSeen)), max(0, h.LastUpdate.Sub(h.Seen))
	}
	if h.stale() {
		of.Updated = max(1, of.Updated)
	}
	return of
}

// Moment returns when a visit becomes worth its cost, as far as is known now. An origin that was never
// visited is worth a visit since it was listed.
func (h *History) Moment(now time.Time) time.Time {
	if h.Seen.IsZero() {
		return h.FirstSeen
	}
	return later(h.Seen.Add(h.Origin(now).Moment(h.Threshold, h.Longest)), h.passes())
}

// Quiet returns when the next visit becomes worth its cost if the lister reports no update until then,
// as far as is known now, or at the last visit if that is later than now.
func (h *History) Quiet(now time.Time) time.Time {
	origin := h.Origin(later(now, h.Seen))
	origin.Updated = 0
	return h.Seen.Add(origin.Moment(h.Threshold, h.Longest))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Off reports whether a candidate's moment is further from what it should be now than
// Origin.Thresholds allows.
func (h *History) Off(moment, now time.Time) bool {
	if h.Seen.IsZero() || moment.IsZero() {
		return !moment.Equal(h.Moment(now))
	}
	origin := h.Origin(now)
	if h.stale() { // scheduler_go.moment_of, which made the moment, uses Prior unchanged then
		origin.Estimate = h.Estimate.Or(h.Prior)
	}
	passes := h.passes()
	if moment.Before(passes) {
		return true
	}
	low, high := origin.Thresholds(moment.Sub(h.Seen), h.Longest)
	return h.Threshold < low && !moment.Equal(passes) || h.Threshold > high
}
