package freshness

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// seenOrigin returns an origin that was visited once, at noon.
func seenOrigin() History {
	h := History{
		Prior: Estimate{Changes: 2, Days: 60}, Cost: time.Minute, Typical: time.Minute, FirstSeen: noon.Add(-day), LastSeen: noon,
		Listing: day, Threshold: 1e4, Longest: year,
	}
	h.Visited(noon, true)
	return h
}

// A visit that found something new raises the rate, and one that found nothing lowers it. A first visit, one before
// the last, and one with an impossible date leave the estimate unchanged.
func TestVisited(t *testing.T) {
	first := History{Prior: General, FirstSeen: noon}
	if _, known, _ := first.Visited(noon, true); known || first.Estimate != (Estimate{}) || !first.LastVisit.Equal(noon) || !first.CoveredUntil.Equal(noon) {
		t.Errorf("%+v after the first visit", first)
	}
	changed, unchanged := seenOrigin(), seenOrigin()
	for range 3 {
		if chance, known, _ := changed.Visited(changed.LastVisit.Add(10*day), true); !known || chance <= 0 || chance >= 1 {
			t.Errorf("chance %v, known %v", chance, known)
		}
		unchanged.Visited(unchanged.LastVisit.Add(10*day), false)
	}
	now := changed.LastVisit
	if often, seldom := changed.Moment(now), unchanged.Moment(now); !often.Before(seldom) {
		t.Errorf("worth a visit at %s if it changes, and at %s if not", often, seldom)
	}
	for _, at := range []time.Time{now, now.Add(-day), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC)} {
		before := changed
		if _, known, _ := changed.Visited(at, true); known || changed != before {
			t.Errorf("a visit changed the estimate at %s", at)
		}
	}
}

// A reported update changes the estimate once: at the report, not at the visit after it.
func TestReportedUpdate(t *testing.T) {
	h := seenOrigin()
	h.LastUpdate = noon.Add(-time.Hour)
	if !h.Listed() || h.Listed() || h.Estimate != (Estimate{}) {
		t.Errorf("%+v after the first report, before which nothing is known", h)
	}
	h.LastUpdate, h.LastSeen = noon.Add(5*day), noon.Add(6*day)
	quiet, worth := h.MomentWithoutUpdate(h.LastSeen), h.Moment(h.LastSeen)
	if !worth.Before(quiet) {
		t.Errorf("worth a visit at %s with the update, and at %s without", worth, quiet)
	}
	if !h.Listed() || h.Estimate == (Estimate{}) || !h.CoveredUntil.Equal(h.LastSeen) {
		t.Errorf("%+v after the second report", h)
	}
	learnt := h.Estimate
	if _, known, _ := h.Visited(noon.Add(7*day), true); known || h.Estimate != learnt {
		t.Errorf("%+v, %v: learnt twice", h.Estimate, known)
	}
}

// A moment is right when it was just computed, and off when the threshold has moved far.
func TestOff(t *testing.T) {
	h := seenOrigin()
	h.Visited(noon.Add(10*day), true)
	now := noon.Add(11 * day)
	moment := h.Moment(now)
	if h.IsOff(moment, now) {
		t.Error("a new moment is off")
	}
	if h.Threshold *= 100; !h.IsOff(moment, now) {
		t.Error("the moment is right with another threshold")
	}
	if never := (History{FirstSeen: noon}); never.IsOff(noon, now) || !never.IsOff(now, now) {
		t.Error("an origin that was never visited is due since it was listed")
	}
}

func TestPrice(t *testing.T) {
	if got := Price([]float64{4, 1, 3, 2}); got != 2 {
		t.Errorf("%v, want 2", got)
	}
	if got := Price(nil); got != 0 {
		t.Errorf("%v of no visits", got)
	}
}

// An update on the second or the day of a visit may have come after the visit. The origin is stale until a visit
// after that second or day; its moment isn't before the end of it. That visit leaves the estimate unchanged, as the
// report has changed it.
func TestUpdateAsOldAsTheVisit(t *testing.T) {
	second := noon.Add(10 * day) // a noon
	midnight := second.Add(-12 * time.Hour)
	for _, c := range []struct {
		name         string
		update, seen time.Time
		passes       time.Time // the end of the update's date; zero: the visit includes the update
	}{
		{"in the second", second, second.Add(400 * time.Millisecond), second.Add(time.Second)},
		{"at the same moment", second.Add(time.Millisecond), second.Add(time.Millisecond), second.Add(time.Millisecond + time.Microsecond)},
		{"the second before", second.Add(-time.Second), second, time.Time{}},
		{"on the day", midnight, second, midnight.Add(day)},
		{"the day before", midnight.Add(-day), second, time.Time{}},
	} {
		h := seenOrigin()
		h.LastUpdate, h.LastSeen = noon.Add(day+time.Minute), noon.Add(2*day)
		h.Listed()
		h.Visited(c.seen, true)
		h.LastUpdate, h.LastSeen = c.update, c.seen.Add(day)
		now := h.LastSeen
		h.Listed()
		moment, quiet, learnt := h.Moment(now), h.MomentWithoutUpdate(now), h.Estimate
		if h.IsOff(moment, now) {
			t.Errorf("%s: its moment is off", c.name)
		}
		stale := !c.passes.IsZero()
		if stale && (moment.Before(c.passes) || !moment.Before(quiet)) || !stale && !moment.Equal(quiet) {
			t.Errorf("%s: worth a visit at %s with the update, at %s without; the date of the update passes at %s", c.name, moment, quiet, c.passes)
		}
		h.Threshold = 0 // worth a visit at once
		if moment := h.Moment(now); stale && !moment.Equal(c.passes) || h.IsOff(moment, now) {
			t.Errorf("%s: without a threshold worth a visit at %s, want %s; off: %v", c.name, moment, c.passes, h.IsOff(moment, now))
		}
		if stale && !h.IsOff(c.passes.Add(-time.Microsecond), now) {
			t.Errorf("%s: a moment before the date has passed is right", c.name)
		}
		h.Threshold = 1e4
		if _, known, _ := h.Visited(c.seen.Add(2*day), false); known == stale || stale && h.Estimate != learnt {
			t.Errorf("%s: the next visit teaches: %v", c.name, known)
		}
		if moment, quiet := h.Moment(now.Add(2*day)), h.MomentWithoutUpdate(now.Add(2*day)); !moment.Equal(quiet) {
			t.Errorf("%s: after another visit worth one at %s, and at %s without the update", c.name, moment, quiet)
		}
	}
}
