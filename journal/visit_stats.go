package journal

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

const (
	eventfulStep   = -2 // a change: visit sooner
	uneventfulStep = +1 // no change, or no result: visit later
)

// A Visit is the end of one visit of an origin.
type Visit struct {
	model.OriginKey
	Date     time.Time // UTC, in whole microseconds
	Status   model.VisitStatus
	Snapshot []byte // nil unless the visit was successful
}

// Rules turn visits into stats, as the Python scheduler's process_journal_objects does. They hold no state:
// a visit's changes depend on the origin's stats alone.
type Rules struct {
	Visits *model.VisitRules // nil: model.DefaultVisitRules
	// Fudge returns the random part of an interval that is added to it. Nil draws it evenly within
	// Visits.Fudge.
	Fudge func() float64
	// FailuresKeepDate is the rule of the scheduler's first design for a failed visit, except for one that
	// found nothing. The date of the last visit and the offset stay, and the origin moves by the shortest
	// interval, as the failure may be temporary. By the Python scheduler's rule a failure counts like a
	// visit without a change. Under either rule a first visit that fails sets the date: an origin without a
	// date would never be picked again.
	FailuresKeepDate bool
}

// An originState is the known state of one origin.
type originState struct {
	model.VisitStats
	ledger.VisitFailure // zero if none is recorded
	changed             bool
}

// apply records visit v in s, the stats of its origin. It reports whether the stats changed, whether to
// disable the origin, and whether the visit found a change. queuePosition is the position of the visit
// type's queue, 0 for none. A visit dated not after the last known one changes nothing: it is late or
// repeated.
//
// apply replaces s.LastSnapshot and never writes to it; s may share it.
func (r Rules) apply(s *originState, v Visit, queuePosition int64) (changed, disable, eventful bool) {
	if s.LastVisit != nil && !v.Date.After(*s.LastVisit) || !v.Date.After(s.Date) && !s.Date.IsZero() {
		return false, false, false
	}
	rules := r.visits()
	keepDate := r.FailuresKeepDate && v.Status == model.VisitFailed && s.LastVisit != nil
	successful := v.Status == model.VisitSuccessful
	eventful = successful && (s.LastSnapshot == nil || !bytes.Equal(v.Snapshot, s.LastSnapshot))

	sameStatus := s.LastVisit != nil && s.LastVisitStatus == v.Status
	offset := s.NextPositionOffset // a first visit keeps the stored offset
	switch {
	case keepDate:
		offset = 0
	case s.LastVisit != nil:
		step := int64(uneventfulStep)
		if eventful {
			step = eventfulStep
		}
		offset = int32(max(0, min(int64(offset)+step, int64(rules.LastOffset()))))
		s.NextPositionOffset = offset
	}
	if !sameStatus {
		s.SuccessiveVisits = 1
	} else if s.SuccessiveVisits < math.MaxInt32 {
		s.SuccessiveVisits++
	}

	date := v.Date
	if !keepDate {
		s.LastVisit = &date
	}
	// Successive visits with this status count even if no failures are recorded.
	if s.InARow = max(s.InARow+1, s.SuccessiveVisits); successful {
		s.InARow = 0
	}
	if keepDate || !successful && rules.DisableAfterMixed > 0 {
		s.Date = date
	}
	s.LastVisitStatus = v.Status
	if successful {
		if s.LastSuccessful == nil || date.After(*s.LastSuccessful) {
			s.LastSuccessful = &date
		}
		s.LastSnapshot = v.Snapshot
	}

	position := queuePosition
	if s.NextVisitQueuePosition != nil && *s.NextVisitQueuePosition != 0 { // the Python scheduler takes 0 for none
		position = *s.NextVisitQueuePosition
	}
	interval := r.interval(offset)
	position = min(position, math.MaxInt64-interval) + interval
	s.NextVisitQueuePosition = &position

	disable = !successful && (int(s.SuccessiveVisits) >= rules.DisableAfter ||
		rules.DisableAfterMixed > 0 && int(s.InARow) >= rules.DisableAfterMixed)
	return true, disable, eventful
}

func (r Rules) visits() model.VisitRules {
	if r.Visits == nil {
		return model.DefaultVisitRules
	}
	return *r.Visits
}

// interval returns the seconds by which an origin with the offset moves in the queue.
func (r Rules) interval(offset int32) int64 {
	rules := r.visits()
	share := (2*rand.Float64() - 1) * rules.Fudge
	if r.Fudge != nil {
		share = r.Fudge()
	}
	return int64(rules.Interval(offset).Seconds() * (1 + share))
}

// A tally applies a batch of visits, in order, to the stats of their origins.
type tally struct {
	rules    Rules
	known    ledger.KnownVisits
	origins  map[model.OriginKey]*originState
	changed  []*originState
	disabled map[string]bool // URLs
	applied  Applied
	held     []ledger.HeldVisit
	turns    []ledger.VisitTurn
	fresh    map[model.OriginKey]origins.OriginFreshness // of visited origins
	news     map[origins.Newscaster]freshness.Quality    // what visits show of the quality of listers' news
}

func newTally(rules Rules, known ledger.KnownVisits) *tally {
	t := &tally{
		rules:    rules,
		known:    known,
		origins:  make(map[model.OriginKey]*originState, len(known.Stats)),
		disabled: make(map[string]bool),
		applied:  make(Applied),
		fresh:    make(map[model.OriginKey]origins.OriginFreshness),
		news:     make(map[origins.Newscaster]freshness.Quality),
	}
	states := make([]originState, len(known.Stats))
	for i, s := range known.Stats {
		key := model.OriginKey{URL: s.URL, VisitType: s.VisitType}
		states[i] = originState{VisitStats: s, VisitFailure: known.LastFailures[key]}
		t.origins[key] = &states[i]
	}
	return t
}

func (t *tally) apply(visits []Visit) {
	for _, v := range visits {
		if t.holdBack(v) {
			continue
		}
		s := t.origins[v.OriginKey]
		if s == nil {
			s = &originState{VisitStats: model.VisitStats{
				URL: v.URL, VisitType: v.VisitType,
				NextPositionOffset: model.DefaultPositionOffset, SuccessiveVisits: 1,
			}}
			t.origins[v.OriginKey] = s
		}
		before := s.VisitStats
		changed, disable, eventful := t.rules.apply(s, v, t.known.QueuePositions[v.VisitType])
		if changed {
			if before.LastVisit != nil && before.LastVisitStatus != v.Status {
				t.turns = append(t.turns, ledger.VisitTurn{
					OriginKey: v.OriginKey, At: v.Date, Status: v.Status,
					Before: before.LastVisitStatus, Visits: before.SuccessiveVisits, LastBefore: *before.LastVisit,
				})
			}
			t.applied[visitOutcome{v.VisitType, outcomeOf(v.Status, eventful), t.learn(v, eventful)}]++
			if !s.changed {
				s.changed = true
				t.changed = append(t.changed, s)
			}
		}
		if disable {
			t.disabled[v.URL] = true
		}
	}
}

// learn updates the estimates of the origin's changes and of its lister's news, if its visit type has the policy freshness. It
// returns the expected chance of a change, or "". A failed visit changes no estimate.
func (t *tally) learn(v Visit, eventful bool) (chance string) {
	o, ok := t.fresh[v.OriginKey]
	if !ok {
		o, ok = t.known.Freshness[v.OriginKey]
	}
	if !ok || v.Status != model.VisitSuccessful {
		return ""
	}
	p, known, seen := o.Visited(v.Date, eventful)
	if known {
		chance = fmt.Sprintf("%.1f", math.Floor(p*10)/10)
	}
	if o.HintSource != "" { // the job hints counts these by source
		seen.Right, seen.Wrong = 0, 0
	}
	if seen != (freshness.Quality{}) {
		of := origins.Newscaster{VisitType: v.VisitType, Lister: o.Lister}
		t.news[of] = t.news[of].Add(seen)
	}
	t.fresh[v.OriginKey] = o
	return chance
}

// laneSkew bounds how far the clock that dates visits may be behind ours.
const laneSkew = time.Hour

// holdBack reports whether a visit does not count, now or at all. A visit that failed because it timed out
// on a lane is no failure of the origin: it continues on the next lane. The worker's events give the reason
// of the failure, perhaps later. The same holds for a visit that its hoster refused.
func (t *tally) holdBack(v Visit) bool {
	if v.Status != model.VisitFailed {
		return false
	}
	// The loader records the failure before the worker reports the time-out, both by the clock of one
	// machine. The next try may begin, and fail, right after that.
	for _, o := range t.known.TimedOut[v.OriginKey] {
		if !v.Date.Before(o.Claimed.Add(-laneSkew)) && !v.Date.After(o.TimedOut) {
			return true
		}
	}
	for _, l := range t.known.Laned[v.OriginKey] {
		if !v.Date.Before(l.Since.Add(-laneSkew)) {
			t.held = append(t.held, ledger.HeldVisit{OriginKey: v.OriginKey, TaskID: l.TaskID, Date: v.Date})
			return true
		}
	}
	return false
}

// changes returns the changes to write.
func (t *tally) changes() ledger.VisitChanges {
	c := ledger.VisitChanges{
		Stats:        make([]*model.VisitStats, 0, len(t.changed)),
		LastFailures: make(map[model.OriginKey]ledger.VisitFailure),
		DisabledURLs: slices.Collect(maps.Keys(t.disabled)),
		Held:         t.held,
		Turns:        t.turns,
		Freshness:    slices.Collect(maps.Values(t.fresh)),
		News:         t.news,
		Ends:         t.applied.ends(),
	}
	for _, s := range t.changed {
		c.Stats = append(c.Stats, &s.VisitStats)
		if !s.Date.IsZero() {
			c.LastFailures[model.OriginKey{URL: s.URL, VisitType: s.VisitType}] = s.VisitFailure
		}
	}
	return c
}
