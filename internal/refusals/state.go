package refusals

import (
	"cmp"
	"time"

	"swh-scheduler/internal/model"
)

// State is the learned limit of a hoster that refused a visit.
type State struct {
	Hoster string

	// Limit is the most visits in flight; 0: it refused too few visits for a limit. Before Closed, none is claimed.
	Limit  float64
	Closed time.Time
	// Level is what the hoster had, or was allowed, in flight when it was last lowered. Lowered is when.
	Level   float64
	Lowered time.Time
	// Until is when the limit begins to rise. Waits is the number of waits in a row that each doubled.
	Until  time.Time
	Waits  int
	Rounds float64
	// Raised is when a visit last raised it.
	Raised time.Time

	// Since is the first refusal after the last success; zero if a visit succeeded since.
	Since time.Time
	// Score is the number of refusals, less one for each 200 successes. Refusals of one flight count up to half of
	// Limit.
	Score float64

	// Seconds is the mean time from the claim to the end of its visits that succeeded, of about the last 1,000. Ended
	// is the number of visits in it.
	Seconds float64
	Ended   int

	// Refused is the time of the last refusal, Kind its kind, Reason the beginning of its error.
	Refused time.Time
	Kind    Kind
	Reason  string

	// InFlight are its visits in flight, as counted at Counted. Mixed reports that they are visits of several hosts,
	// so that a refusal of one of these doesn't lower the limit of the instance.
	InFlight int
	Counted  time.Time
	Mixed    bool
}

// These are the constants of the rule.
const (
	// tolerated is the part of visits that may be refused without a lowering. credit bounds the refusals that earlier
	// successes make up for.
	tolerated = 0.005
	credit    = 5
	// many is the part of the visits in flight that a hoster without a limit must refuse: one refusal below a hundred,
	// or two if they may be an origin's fault.
	many = 0.01
	// near is the part of Level that a limit falls to if fewer than tolerated were refused, for a pause. It returns to
	// that part by fast of Level for each round of visits, of as many as are in flight, and at most to the double.
	near  = 0.97
	pause = 5 * time.Second
	fast  = 0.2
	// Above, the square of time raises it: it is at Level after climb, and at twice of it after three hours. It rises
	// by slow of Level in a round at most.
	climb = 30 * time.Minute
	slow  = 0.03
	// keep is the part of Level that is kept when more than tolerated were refused.
	keep = 0.9
	// forgotten is the multiple of Level at which a limit ends.
	forgotten = 2
	// averaged is the number of visits in Seconds.
	averaged = 1000
	// reserve is the time without claims for which a hoster may get its visits at once.
	reserve = 10 * time.Second
)

// Excused is how long a hoster may refuse all visits before they count as failures of their origins. After that, the
// rules of failed visits disable the origins of hosters that are gone.
const Excused = 7 * 24 * time.Hour

// MaxReason bounds Reason, in characters.
const MaxReason = 200

// Max returns the number of visits that may be in flight at the moment now. limited is false without a limit.
func (s State) Max(now time.Time) (most int, limited bool) {
	switch {
	case now.Before(s.Closed):
		return 0, true
	case s.Limit > 0:
		return int(s.Limit), true
	}
	return 0, false
}

// Interval returns the time between two claims by which Limit visits are in flight in the mean; 0: any number may be
// claimed at once.
func (s State) Interval() time.Duration {
	if s.Limit == 0 {
		return 0
	}
	return model.Duration(s.Seconds / s.Limit)
}

// Paced returns the moment up to which earlier claims use the pace of one visit in each Interval, as recorded at the
// last one. Time without claims counts up to reserve, and time without permission doesn't.
func (s State) Paced(recorded, now time.Time) time.Time {
	interval := s.Interval()
	return later(later(recorded, now.Add(-max(reserve, interval))), s.Closed.Add(-interval))
}

// Wait returns how long a refused visit waits, and its hoster's limit: as long as the hoster asks for, else Min,
// doubled waits times. It is between Min and Max.
func Wait(b model.HosterBackoff, r Refusal, waits int) time.Duration {
	if r.Said {
		return max(b.Min, min(r.RetryAfter, b.Max))
	}
	wait := b.Min
	for ; waits > 0 && wait < b.Max; waits-- {
		wait *= 2
	}
	return min(wait, b.Max)
}

// Refuse applies a refusal of a visit claimed at a moment, and received at a later one. limit is the hoster's
// configured limit. It returns when the visit may be tried again.
//
// The first refusals halve the limit. Later ones change nothing while fewer than one visit in 200 is refused. The next
// one lowers the limit to near of it and pauses the hoster. Before 200 visits have succeeded for each refusal, a
// further one halves it again. Refusals of visits claimed before the last lowering are part of the same trouble.
// The hoster gets no visit until the wait is over if it asks for the wait, refuses a visit that was claimed during it,
// or has the least limit.
func (s *State) Refuse(b model.HosterBackoff, limit model.HosterLimit, r Refusal, claimed, received time.Time) time.Time {
	if s.Since.IsZero() {
		s.Since = received
	}
	if received.After(s.Refused) {
		s.Refused = received
	}
	s.Score++
	least := float64(max(1, limit.MinInFlight))
	if s.Limit > 0 && !claimed.After(s.Lowered) {
		s.Score = min(s.Score, max(1, s.Limit/2))
		s.pause(b, r, received)
		return later(later(s.Until, s.Closed), received.Add(Wait(b, r, 0)))
	}
	base := s.Limit
	if base == 0 {
		base = float64(max(1, s.InFlight))
		if limit.MaxInFlight > 0 {
			base = min(base, float64(limit.MaxInFlight))
		}
	}
	free := max(1, many*base-1) // of a lowering
	if r.Kind.ofHoster() || r.Said {
		free--
	}
	switch {
	case s.Score <= free:
		s.Raised = later(s.Raised, received)
		if s.Limit > 0 {
			s.pause(b, r, received)
		}
		return later(later(s.Until, s.Closed), received.Add(Wait(b, r, s.Waits)))
	case s.Limit > 0 && s.Score <= free+1:
		s.Level, s.Limit = base, max(least, near*base)
		s.Closed = later(s.Closed, received.Add(pause))
		s.pause(b, r, received)
		s.Until, s.Raised = later(s.Until, s.Closed), received
	default:
		waiting := received.Before(s.Until)
		s.wait(b, r, received, waiting || r.Said || base <= least)
		if !waiting {
			s.Waits = min(s.Waits+1, maxWaits)
		}
		switch {
		case s.Level == 0:
			s.Level = base
		case base > least && (!waiting || r.Kind == TooMany): // a hoster that is away says nothing of a level
			s.Level = keep * max(base, s.Level)
		}
		s.Limit, s.Raised, s.Rounds = max(least, base/2), s.Until, 0
	}
	s.Lowered, s.Score = received, 0.5
	return later(s.Until, received.Add(Wait(b, r, 0)))
}

// pause lets the hoster get no visit for as long as it asks for, at most Max.
func (s *State) pause(b model.HosterBackoff, r Refusal, received time.Time) {
	if !r.Said {
		return
	}
	asked := r.RetryAfter
	if asked <= 0 { // its clock is off
		asked = b.Min
	}
	s.Closed = later(s.Closed, received.Add(min(max(asked, pause), b.Max)))
}

// maxWaits bounds Waits: a minute doubled so often is longer than a year.
const maxWaits = 20

// wait moves Until on, and Closed if the hoster gets no visit before. A wait that isn't over is not prolonged, unless
// the hoster asks for it.
func (s *State) wait(b model.HosterBackoff, r Refusal, received time.Time, closed bool) {
	if r.Said || !received.Before(s.Until) {
		s.Until = later(s.Until, received.Add(Wait(b, r, s.Waits)))
	}
	if closed {
		s.Closed = s.Until
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Succeed applies a visit that was not refused, claimed at a moment and received at a later one. A visit claimed before
// the last lowering says nothing of the present limit.
func (s *State) Succeed(claimed, received time.Time) {
	s.Score = max(-credit, s.Score-tolerated)
	s.Ended = min(s.Ended+1, averaged)
	s.Seconds += (max(0, received.Sub(claimed).Seconds()) - s.Seconds) / float64(s.Ended)
	if s.Limit == 0 {
		s.Since = time.Time{}
		return
	}
	if !claimed.After(s.Lowered) {
		return
	}
	s.Since = time.Time{}
	if received.Before(s.Until) {
		return
	}
	round := 1 / max(1, s.Limit)
	if s.Limit < near*s.Level {
		s.Limit = min(near*s.Level, s.Limit+round*min(s.Limit, fast*s.Level))
	} else if s.Score <= 0 {
		began := later(s.Lowered, s.Until)
		risen := func(at time.Time) float64 {
			t := at.Sub(began).Seconds() / climb.Seconds()
			return (1 - near) * t * t
		}
		s.Limit += s.Level * max(0, min(slow*round, risen(received)-risen(later(began, s.Raised))))
	}
	if s.Rounds += round; s.Rounds >= 1 {
		s.Waits = 0
	}
	s.Raised = later(s.Raised, received)
	if s.Limit > forgotten*s.Level+1 {
		s.Limit, s.Level, s.Closed = 0, 0, time.Time{}
	}
}

// Counts reports whether a refusal received at a moment counts as a failure of its origin: the hoster refuses all
// visits for so long that it may be gone.
func (s State) Counts(received time.Time) bool {
	return !s.Since.IsZero() && received.Sub(s.Since) >= Excused
}

// Describe returns the reason of the last refusal.
func (s State) Describe() string { return cmp.Or(s.Reason, string(s.Kind)) }
