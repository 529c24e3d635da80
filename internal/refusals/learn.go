package refusals

import (
	"cmp"
	"slices"
	"time"

	"swh-scheduler/internal/model"
)

// An End is the end of a visit.
type End struct {
	Hosters           []string // that back off: see model.Hosters.BacksOff
	Refusal           Refusal  // Kind "" if it succeeded
	Reason            string   // the beginning of the error
	Claimed, Received time.Time
}

// A Load is a number of visits in flight that count for the same hosters.
type Load struct {
	Hosters []string
	Visits  int
}

// alone is the part of an instance's visits at one host from which on the two are the same hoster.
const alone = 0.9

// Learn applies ends in their order to the states of hosters. It returns the states that changed, in the order of
// names, and for each end when its origin may be visited again; the zero time if its end counts. loads replace the
// counts of all hosters that they name; nil leaves the counts.
//
// A refusal lowers the limit of the visit's host. It also lowers that of its lister's instance, if nearly all visits
// of the instance are at that host.
func Learn(rules model.Hosters, known []State, loads []Load, ends []End) (changed []State, again []time.Time) {
	states := make(map[string]*State)
	for i := range known {
		states[known[i].Hoster] = &known[i]
	}
	again = make([]time.Time, len(ends))
	touched := make(map[string]bool)
	for i, e := range ends {
		for _, hoster := range e.Hosters {
			s := states[hoster]
			if s == nil && e.Refusal.Kind == "" {
				continue
			}
			if s == nil {
				s = &State{Hoster: hoster}
				states[hoster] = s
			}
			touched[hoster] = true
			if e.Refusal.Kind == "" {
				s.Succeed(e.Claimed, e.Received)
				continue
			}
			if loads != nil && s.Limit == 0 && s.Counted.Before(e.Received) {
				s.count(loads, e.Hosters, e.Received)
			}
			if s.Limit == 0 && s.Mixed {
				continue
			}
			counts := s.Counts(e.Received)
			moment := s.Refuse(*rules.Backoff, rules.Limit(hoster), e.Refusal, e.Claimed, e.Received)
			if !e.Received.Before(s.Refused) {
				s.Kind, s.Reason = e.Refusal.Kind, e.Reason
			}
			if !counts {
				again[i] = later(again[i], moment)
			}
		}
	}
	for hoster := range touched {
		changed = append(changed, *states[hoster])
	}
	slices.SortFunc(changed, func(a, b State) int { return cmp.Compare(a.Hoster, b.Hoster) })
	return changed, again
}

// count sets the visits in flight of a hoster, and whether they are at several hosts. of are the hosters of a refused
// visit.
func (s *State) count(loads []Load, of []string, now time.Time) {
	s.InFlight, s.Counted = 0, now
	same := 0
	for _, l := range loads {
		if slices.Contains(l.Hosters, s.Hoster) {
			s.InFlight += l.Visits
			if !slices.ContainsFunc(of, func(hoster string) bool { return !slices.Contains(l.Hosters, hoster) }) {
				same += l.Visits
			}
		}
	}
	s.Mixed = model.IsInstance(s.Hoster) && float64(same) < alone*float64(s.InFlight)
}
