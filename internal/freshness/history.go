package freshness

import (
	"time"

	"swh-scheduler/internal/model"
)

// Visits dated before firstDate, or at lastDate or later, are ignored: a clock was wrong. The database also ignores
// such dates (scheduler_go.last_seen_fresh).
var firstDate, lastDate = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// History is the stored state of a listed origin. A zero time is unknown.
type History struct {
	Estimate      Estimate      // of its rate of change; zero: nothing was observed yet
	Prior         Estimate      // the estimate for its lister's origins, or for its visit type
	Cost, Typical time.Duration // mean runtime of its visits, and of all visits of its type
	LastVisit     time.Time     // the last successful visit
	// Only if its lister reports updates. Updated is the last update that is part of Estimate. CoveredUntil is the end of
	// the time that Estimate covers.
	Updated, CoveredUntil time.Time
	FirstNews             time.Time // the first update reported since the last visit; zero: none
	News                  Quality   // of its lister's news

	FirstSeen, LastSeen time.Time     // by its lister; LastSeen is the end of the last listing if that is later
	LastUpdate          time.Time     // as its lister reports it; zero if it reports none
	Listing             time.Duration // the time between two listings of its lister
	Fork                bool
	Threshold           float64       // of the value, for its moment
	Longest             time.Duration // the longest wait for a visit
}

// Visited updates the estimate after a successful visit at a moment after the last one. changed is whether the visit
// found something new. Visited returns the probability of a change by the estimate before. known is false for a first
// visit, which has no visit to compare with. known is also false for a visit after a reported update: the estimate
// uses the report instead. seen is what the visit shows of the quality of the news.
func (h *History) Visited(at time.Time, changed bool) (chance float64, known bool, seen Quality) {
	if !at.After(h.LastVisit) || at.Before(firstDate) || !at.Before(lastDate) {
		return 0, false, Quality{}
	}
	h.Listed()
	switch {
	case h.LastVisit.IsZero():
		h.CoveredUntil = at
	case h.stale():
		seen = h.afterNews(at, changed)
	default:
		chance, known = h.Origin(at).Chance(at.Sub(h.LastVisit)), true
		seen = h.afterSilence(at, changed)
	}
	h.LastVisit, h.FirstNews = at, time.Time{}
	return chance, known, seen
}

// exposure returns the part of the time from from to at in which unreported changes would have come, and the rest: the time
// of changes that would have been reported.
func (h *History) exposure(from, at time.Time) (unreported, reported time.Duration) {
	gap := max(0, at.Sub(from))
	if !h.HasUpdates() {
		return gap, 0
	}
	r := h.News.Recall()
	reported = time.Duration(r * float64(min(gap, max(0, h.LastSeen.Sub(from)))))
	return gap - reported, reported
}

// afterSilence updates the estimate after a visit at at, without news since the last visit.
func (h *History) afterSilence(at time.Time, changed bool) (seen Quality) {
	since := h.LastVisit
	if h.HasUpdates() {
		since = h.CoveredUntil
		if h.canMiss() {
			seen = h.missed(at, changed)
		}
	}
	unreported, reported := h.exposure(since, at)
	if prior := h.prior(at); changed {
		h.Estimate = h.Estimate.Observe(prior, reported, Unchanged).Observe(prior, unreported, Changed)
	} else {
		h.Estimate = h.Estimate.Observe(prior, reported+unreported, Unchanged)
	}
	h.CoveredUntil = later(h.CoveredUntil, at)
	return seen
}

// missed returns what a visit at at, without news since the last visit, shows of the recall: the expected number of unreported
// changes that it has found, of those until the last listing, and of reported changes in a time as long. Both are of the same
// visits. Visits after news are not counted: they are made at once, while missed changes are found much later.
func (h *History) missed(at time.Time, found bool) (seen Quality) {
	unreported, reported := h.exposure(h.LastVisit, at)
	e := h.Estimate.Or(h.prior(at))
	e.Days += days(reported)
	rate, r := e.Changes/e.Days, h.News.Recall()
	seen.Reported = rate * days(reported)
	if found {
		seen.Missed = (1 - r) / r * seen.Reported / max(e.Chance(unreported), 1e-9)
	}
	return seen
}

// afterNews updates the estimate after a visit at at, with news since the last visit. It learns nothing if the update may have
// been before the last visit, or was after this one.
func (h *History) afterNews(at time.Time, changed bool) (seen Quality) {
	if h.FirstNews.After(at) || !h.LastUpdate.After(h.LastVisit) {
		return Quality{}
	}
	unreported, _ := h.exposure(h.LastVisit, at)
	if !changed {
		h.Estimate = h.Estimate.Or(h.prior(at)).WithoutReport().Observe(h.prior(at), unreported, Unchanged)
		h.CoveredUntil = later(h.CoveredUntil, at)
		return Quality{Wrong: 1}
	}
	q := h.News.Precision()
	seen.Right = q / (q + (1-q)*h.Estimate.Or(h.prior(at)).Chance(unreported))
	seen.Wrong = 1 - seen.Right
	return seen
}

// canMiss reports whether the origin changes seldom between listings, as few changes are missed if each is soon followed by
// another one. Only visits of such origins show how many changes are missed.
func (h *History) canMiss() bool {
	return h.Estimate.Or(h.prior(h.LastVisit)).Rate()*days(h.Listing) < 0.3
}

// Listed updates the estimate if the lister has reported an update after Updated. It reports whether it did.
func (h *History) Listed() bool {
	if !h.HasUpdates() || !h.LastUpdate.After(h.Updated) {
		return false
	}
	if h.Updated.IsZero() { // the first report: the time of the update before it is unknown
		h.CoveredUntil = h.LastVisit
	} else {
		r := h.News.Recall()
		h.Estimate = h.Estimate.WithReports(h.prior(h.LastSeen), h.LastSeen.Sub(h.CoveredUntil), h.LastSeen.Sub(h.LastUpdate), h.Listing, r)
		h.CoveredUntil = later(h.CoveredUntil, h.LastSeen)
	}
	if h.Updated = h.LastUpdate; h.FirstNews.IsZero() && h.stale() {
		h.FirstNews = h.LastUpdate
	}
	return true
}

// HasUpdates reports whether the lister reports updates of the origin.
func (h *History) HasUpdates() bool { return !h.LastUpdate.IsZero() }

// stale reports whether the last reported update may have come after the last successful visit. The date of an update
// may be a second or a day long (see model.UpdateEnds).
func (h *History) stale() bool {
	return h.HasUpdates() && model.UpdateEnds(h.LastUpdate).After(h.LastVisit)
}

// updateDateEnd returns the end of the second or day that the date of the last update covers, if the last successful visit
// was in it. A visit before that end may miss the update. Otherwise updateDateEnd returns the zero time.
func (h *History) updateDateEnd() time.Time {
	if !h.stale() || h.LastUpdate.After(h.LastVisit) {
		return time.Time{}
	}
	return model.UpdateEnds(h.LastUpdate)
}

// prior returns the estimate for an origin without observations, as of a moment. The time since the last update counts only
// before the first observation: later, the observations contain it.
func (h *History) prior(at time.Time) Estimate {
	f := Facts{Lister: h.Prior, Fork: h.Fork, Age: at.Sub(h.FirstSeen)}
	if h.HasUpdates() && !h.Estimate.known() {
		f.SinceUpdate = at.Sub(h.LastUpdate)
	}
	return f.Prior()
}

// UselessVisits is the price of a visit that finds nothing, beside its runtime, in typical visits.
const UselessVisits = 5

// Origin returns the inputs of the formulas, as of the last visit. A lister that reports updates is expected to list
// as often as before. Once the time since its last listing is longer, that time counts instead: a stopped lister
// reports no changes.
func (h *History) Origin(now time.Time) Origin {
	of := Origin{Estimate: h.Estimate.Or(h.prior(h.LastVisit)), Cost: h.Cost, Useless: UselessVisits * h.Typical}
	if h.HasUpdates() {
		of.Listing, of.News = max(h.Listing, now.Sub(h.LastSeen)), h.News
	}
	if h.stale() {
		of.Updated = max(1, h.firstNews().Sub(h.LastVisit))
	}
	return of
}

// Moment returns when a visit becomes worth its cost, by the state at now. An origin that was never visited is worth
// a visit from its listing on.
func (h *History) Moment(now time.Time) time.Time {
	if h.LastVisit.IsZero() {
		return h.FirstSeen
	}
	return later(h.LastVisit.Add(h.Origin(now).Moment(h.Threshold, h.Longest)), h.updateDateEnd())
}

// MomentWithoutUpdate returns when the next visit becomes worth its cost if the lister reports no update until then, by the state
// at now. If the last visit is later than now, the state is that at the last visit.
func (h *History) MomentWithoutUpdate(now time.Time) time.Time {
	origin := h.Origin(later(now, h.LastVisit))
	origin.Updated = 0
	return h.LastVisit.Add(origin.Moment(h.Threshold, h.Longest))
}

// firstNews returns the date of the first update reported since the last visit, of a stale origin.
func (h *History) firstNews() time.Time {
	if h.FirstNews.After(h.LastVisit) && h.FirstNews.Before(h.LastUpdate) {
		return h.FirstNews
	}
	return h.LastUpdate
}

// NewsWait returns the expected staleness, in days, at which a visit after news becomes worth its cost.
func (h *History) NewsWait(now time.Time) float64 {
	return h.Origin(later(now, h.LastVisit)).NewsAge(h.Threshold)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// IsOff reports whether a candidate's moment differs from the right one at now by more than Origin.Thresholds allows.
func (h *History) IsOff(moment, now time.Time) bool {
	if h.LastVisit.IsZero() || moment.IsZero() {
		return !moment.Equal(h.Moment(now))
	}
	origin := h.Origin(now)
	dateEnd := h.updateDateEnd()
	if moment.Before(dateEnd) {
		return true
	}
	if h.stale() {
		const part = 1.1
		wait := origin.NewsAge(h.Threshold)
		origin.Estimate = h.Estimate.Or(h.Prior) // scheduler_go.moment_of, which made the moment, uses Prior unchanged
		waits, right := moment.Sub(h.LastVisit), origin.afterNews(wait, h.Longest)
		return float64(waits) > part*float64(right) && !moment.Equal(dateEnd) || float64(right) > part*float64(waits)
	}
	low, high := origin.Thresholds(moment.Sub(h.LastVisit), h.Longest)
	return h.Threshold < low || h.Threshold > high
}
