package origins

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// HosterLoad is the number of visits that count for a hoster's limits.
type HosterLoad struct {
	InFlight   int // claimed and not known to have ended
	LastMinute int // claimed in the last minute

	paced time.Time // see refusals.State.Paced
}

// HosterLoads returns the loads of some hosters by name, or of all if of is nil: see model.Hosters.Loaded. A visit
// counts only for hosters that had a limit at its claim, or back off. For all hosters it reads all visits in flight.
func (a Queries) HosterLoads(ctx context.Context, hosters model.Hosters, of []string, now time.Time) (loads map[string]HosterLoad, err error) {
	loads = make(map[string]HosterLoad)
	lostAfter, claimedAfter := hosters.LostAfter.Seconds(), now.Add(-time.Minute)
	if of == nil {
		rows, err := a.q.AllHosterLoads(ctx, queries.AllHosterLoadsParams{Now: now, LostAfter: lostAfter, ClaimedAfter: claimedAfter})
		for _, r := range rows {
			loads[r.Hoster] = HosterLoad{int(r.InFlight), int(r.Claimed), r.Paced}
		}
		return loads, stmt.Failed(err, "count the visits of all hosters")
	}
	if len(of) == 0 {
		return loads, nil
	}
	rows, err := a.q.HosterLoads(ctx, queries.HosterLoadsParams{Hosters: of, Now: now, LostAfter: lostAfter, ClaimedAfter: claimedAfter})
	asked := make(map[string]bool, len(of))
	for _, hoster := range of {
		asked[hoster] = true
	}
	for _, r := range rows {
		if asked[r.Hoster] {
			loads[r.Hoster] = HosterLoad{int(r.InFlight), int(r.Claimed), r.Paced}
		}
	}
	return loads, stmt.Failed(err, "count the visits of hosters")
}

// hosterRoom is the remaining capacity of hosters in a transaction that claims visits. The transaction
// holds the lock of hosters.
type hosterRoom struct {
	model.Hosters
	loads   map[string]HosterLoad
	listers map[uuid.UUID]string // the hoster of each lister's instance
	closed  map[string]bool      // hosters without capacity

	refusing map[string]refusals.State // hosters that refused visits; nil without back-off
	now      time.Time
	waited   time.Duration // for the lock, in whole tenths of a second: a claim without a wait is of its own moment
}

// limited reports whether any hoster has a limit now: a configured one, or by refusals.
func (g *Grabs) limited(ctx context.Context) (bool, error) {
	h := g.tx.hosters
	if h.Backoff != nil && g.refusing == nil {
		rows, err := g.tx.q.LimitedByRefusals(ctx, g.now)
		if err != nil {
			return false, err
		}
		g.refusing = make(map[string]refusals.State, len(rows))
		for _, r := range rows {
			if h.BacksOff(r.Hoster) {
				g.refusing[r.Hoster] = refusals.State{Hoster: r.Hoster, Limit: r.MaxLoad, Closed: r.Closed, Seconds: r.Seconds}
			}
		}
	}
	return h.Configured() || len(g.refusing) > 0, nil
}

// openHosters takes the lock of hosters and reads their loads, once in a claim.
func (g *Grabs) openHosters(ctx context.Context) (s *hosterRoom, err error) {
	if g.room != nil {
		return g.room, nil
	}
	tx := g.tx
	asked := time.Now()
	if err := tx.q.LockHosters(ctx); err != nil {
		return nil, err
	}
	s = &hosterRoom{Hosters: tx.hosters, listers: make(map[uuid.UUID]string), closed: make(map[string]bool), refusing: g.refusing, now: g.now}
	s.waited = time.Since(asked).Truncate(100 * time.Millisecond)
	if s.loads, err = tx.HosterLoads(ctx, s.Hosters, s.Loaded(slices.Collect(maps.Keys(g.refusing))...), g.now); err != nil {
		return nil, err
	}
	listers, err := tx.q.HosterListers(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range listers {
		s.listers[l.ID] = l.Hoster
	}
	for hoster := range s.loads {
		if !s.room(hoster) {
			s.closed[hoster] = true
		}
	}
	for hoster, state := range s.refusing {
		load := s.loads[hoster]
		load.paced = state.Paced(load.paced, s.now)
		s.loads[hoster] = load
		if !s.room(hoster) {
			s.closed[hoster] = true
		}
	}
	g.room = s
	return s, nil
}

// room reports whether a hoster has room for another visit.
func (s *hosterRoom) room(hoster string) bool {
	load, state := s.loads[hoster], s.refusing[hoster]
	if most, limited := state.Max(s.now); limited && load.InFlight >= most {
		return false
	}
	if interval := state.Interval(); interval > 0 && load.paced.Add(interval).After(s.now) {
		return false
	}
	maxInFlight, perMinute := s.Limit(hoster).Reached(load.InFlight, load.LastMinute)
	return !maxInFlight && !perMinute
}

// add adds visits to the loads of hosters.
func (s *hosterRoom) add(hosters []string, visits int) {
	for _, h := range hosters {
		load := s.loads[h]
		load.InFlight += visits
		load.LastMinute += visits
		load.paced = load.paced.Add(time.Duration(visits) * s.refusing[h].Interval())
		s.loads[h] = load
	}
}

// of returns the hosters that count an origin.
func (s *hosterRoom) of(o model.ListedOrigin) []string {
	return s.Counting(s.listers[o.ListerID], o.URL)
}

// HostersOf returns the hosters for whose limits a visit of an origin counts, or may count later.
func (tx *Tx) HostersOf(o model.ListedOrigin, l model.Lister) []string {
	return tx.hosters.Counting(model.ListerGroup(model.ShareByListerInstance, l), o.URL)
}

// take returns the visits whose hosters have room, in their order, and adds them to the loads. It closes
// hosters without room for another visit. all reports whether it closed none.
func (s *hosterRoom) take(visits []GrabbedVisit) (taken []GrabbedVisit, all bool) {
	all = true
	for _, v := range visits {
		v.Hosters = s.of(v.Origin)
		full := slices.IndexFunc(v.Hosters, func(h string) bool { return !s.room(h) })
		if full < 0 {
			s.add(v.Hosters, 1)
			taken = append(taken, v)
		} else if !s.closed[v.Hosters[full]] {
			s.closed[v.Hosters[full]], all = true, false
		}
	}
	return taken, all
}

// instances returns all listers; none if s is nil.
func (s *hosterRoom) instances() []uuid.UUID {
	if s == nil {
		return nil
	}
	return slices.Collect(maps.Keys(s.listers))
}

// isClosed reports whether the hoster of a lister's instance is closed; false if s is nil.
func (s *hosterRoom) isClosed(lister uuid.UUID) bool { return s != nil && s.closed[s.listers[lister]] }

// openListers returns the condition that leaves out listers of closed instances, for a row with the alias;
// none if no instance is closed.
func (q *grabQuery) openListers(alias string) []string {
	closed := slices.DeleteFunc(q.room.instances(), func(l uuid.UUID) bool { return !q.room.isClosed(l) })
	if len(closed) == 0 {
		return nil
	}
	q.args["closed_listers"] = closed
	return []string{alias + ".lister_id <> all(@closed_listers::uuid[])"}
}

// openHosts returns the condition that leaves out closed hosts, for a row with the alias; none if no host
// is closed.
func (q *grabQuery) openHosts(alias string) []string {
	var closed []string
	if q.room != nil {
		closed = slices.DeleteFunc(slices.Collect(maps.Keys(q.room.closed)), model.IsInstance)
	}
	if len(closed) == 0 {
		return nil
	}
	q.args["host"], q.args["closed_hosts"] = model.HostPattern, closed
	return []string{"coalesce(substring(lower(" + alias + ".url) from @host::text), '') <> all(@closed_hosts::text[])"}
}

// grabWithinLimits grabs within the limits of hosters. It leaves out visits of full hosters and selects
// again without the origins of these hosters, until all selected visits have room.
func (g *Grabs) grabWithinLimits(ctx context.Context, q *grabQuery, f model.VisitFilter) ([]GrabbedVisit, error) {
	tx, now := g.tx, g.now
	s, err := g.openHosters(ctx)
	if err != nil {
		return nil, err
	}
	if err := tx.q.LockVisitType(ctx, f.VisitType); err != nil {
		return nil, err
	}
	// With the lock, candidates keep the places that the selections return.
	moving, err := tx.q.TryLockCandidates(ctx)
	if err != nil {
		return nil, err
	}
	q.args["moving"] = moving
	q.room, q.effects = s, []string{setAside}
	asked := slices.Clone(q.groups)
	var ofClosed, ofOpen []GrabbedVisit
	for all := false; !all; {
		q.groups = slices.Clone(asked)
		for _, v := range ofClosed {
			q.groups[v.Group].Count--
		}
		selected, err := tx.selectVisits(ctx, q, f, now, false, true)
		if err != nil {
			return nil, err
		}
		var taken []GrabbedVisit
		taken, all = s.take(selected)
		ofOpen = nil
		for _, v := range taken {
			if slices.ContainsFunc(v.Hosters, func(h string) bool { return s.closed[h] }) {
				ofClosed = append(ofClosed, v)
				continue
			}
			ofOpen = append(ofOpen, v)
			if !all {
				s.add(v.Hosters, -1)
			}
		}
	}
	q.effects = marks(f, moving)
	var visits []GrabbedVisit
	if err := tx.withSettings(ctx, q, func() (err error) {
		visits, err = tx.mark(ctx, q, append(ofClosed, ofOpen...))
		return err
	}); err != nil {
		return nil, err
	}
	return visits, tx.addHosterClaims(ctx, s, visits, now)
}

// addHosterClaims records the visits of hosters with a limit per minute or a pace.
func (tx *Tx) addHosterClaims(ctx context.Context, s *hosterRoom, visits []GrabbedVisit, now time.Time) error {
	claims := make(map[string]int32)
	for _, v := range visits {
		for _, h := range v.Hosters {
			if s.Limit(h).PerMinute > 0 || s.refusing[h].Interval() > 0 {
				claims[h]++
			}
		}
	}
	if len(claims) == 0 {
		return nil
	}
	p := queries.AddHosterClaimsParams{Claimed: now.Add(s.waited), ForgetUntil: now.Add(-time.Minute)}
	for hoster, n := range claims {
		p.Hosters, p.Visits = append(p.Hosters, hoster), append(p.Visits, n)
		paced := time.Unix(0, 0)
		if interval := s.refusing[hoster].Interval(); interval > 0 { // what earlier rounds left is over
			paced = s.loads[hoster].paced
			if left := now.Add(-interval); paced.Before(left) {
				paced = left
			}
		}
		p.Paced = append(p.Paced, paced)
	}
	return tx.q.AddHosterClaims(ctx, p)
}

// HostersFull reports whether the grabs left out visits of full hosters. More origins may then be due than they
// grabbed.
func (g *Grabs) HostersFull() bool { return g.room != nil && len(g.room.closed) > 0 }
