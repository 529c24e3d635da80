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
	// Score is the number of refusals without a lowering, less one for each hundred successes.
	Score float64

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
	// perSuccess is the part of visits that may be refused without a lowering. Without a limit and below a hundred
	// visits in flight, one refusal lowers the limit, or two if they may be an origin's fault.
	perSuccess = 0.01
	// credit bounds the refusals that earlier successes make up for. A limit then falls by ease of Level only.
	credit = 1
	ease   = 0.02
	// near is the part of Level up to which a limit rises fast: by fast of Level for each round of visits, of as many
	// as are in flight, and at most to the double.
	near = 0.95
	fast = 0.2
	// Above, it rises by slow of Level each round, and by slowly of Level in an hour, whichever is less.
	slow   = 0.003
	slowly = 0.5
	// keep is the part of Level that is kept at least when a limit is lowered again.
	keep = 0.8
	// forgotten is the multiple of Level at which a limit ends.
	forgotten = 2
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
// The refusal halves the limit. It doesn't if the visit was claimed before the last lowering, as all visits in flight
// meet the same trouble, or if a hundred visits have succeeded since the last refusal. The hoster gets no visit until
// the wait is over if it asks for the wait, refuses a visit that was claimed during it, or has the least limit.
func (s *State) Refuse(b model.HosterBackoff, limit model.HosterLimit, r Refusal, claimed, received time.Time) time.Time {
	if s.Since.IsZero() {
		s.Since = received
	}
	if received.After(s.Refused) {
		s.Refused = received
	}
	least := float64(max(1, limit.MinInFlight))
	if s.Limit > 0 && !claimed.After(s.Lowered) {
		if r.Said {
			s.wait(b, r, received, true)
		}
		return later(s.Until, received.Add(Wait(b, r, 0)))
	}
	base := s.Limit
	if base == 0 {
		base = float64(max(1, s.InFlight))
		if limit.MaxInFlight > 0 {
			base = min(base, float64(limit.MaxInFlight))
		}
	}
	needed := max(2, perSuccess*base)
	if r.Kind.ofHoster() || r.Said {
		needed--
	}
	if s.Score++; s.Score < needed {
		if s.Limit > 0 {
			s.Limit = max(least, s.Limit-ease*s.Level)
			s.Raised = later(s.Raised, received)
			if r.Said {
				s.wait(b, r, received, true)
			}
		}
		return later(s.Until, received.Add(Wait(b, r, s.Waits)))
	}
	waiting := received.Before(s.Until)
	s.wait(b, r, received, waiting || r.Said || base <= least)
	if !waiting {
		s.Waits = min(s.Waits+1, maxWaits)
	}
	if s.Level == 0 || base > least && (!waiting || r.Kind == TooMany) { // a hoster that is away says nothing of a level
		s.Level = max(base, keep*s.Level)
	}
	s.Limit, s.Lowered, s.Score, s.Raised, s.Rounds = max(least, base/2), received, 0, s.Until, 0
	return s.Until
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

// Succeed applies n visits that were not refused, the last of which ended at the moment, and was claimed at another.
// Visits claimed before the last lowering say nothing of the present limit.
func (s *State) Succeed(n int, claimed, received time.Time) {
	s.Score = max(-credit, s.Score-perSuccess*float64(n))
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
	rounds := float64(n) / max(1, s.Limit)
	if s.Limit < near*s.Level {
		s.Limit = min(near*s.Level, s.Limit+rounds*min(s.Limit, fast*s.Level))
	} else {
		byTime := slowly * received.Sub(later(s.Raised, s.Until)).Hours()
		s.Limit += s.Level * max(0, min(slow*rounds, byTime))
	}
	if s.Rounds += rounds; s.Rounds >= 1 {
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
