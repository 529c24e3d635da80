package db

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/freshness"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
)

// The policy freshness (internal/freshness, docs/freshness.md) picks origins by their moments:
// when a visit is worth its cost. A moment depends on what visits have shown of an origin
// (scheduler_go.freshness, written with its visit stats), on its lister's updates, and on a
// threshold that follows the capacity.
//
//	visit ──► freshness: estimate, moment without updates ──┐
//	listing ──► listed_origins ──► drain: moment_of ──► candidates.moment ──► claim
//	                     walk: moments computed again ──────┘                   │
//	                       ▲                                                    │
//	                       └──────────────── threshold ◄── prices of its visits ┘
//
// Nothing of this is read or written where no visit type is in scheduler_go.freshness_control.

// expectedCost is how long a visit is expected to take of which no lane remembers anything.
const expectedCost = time.Minute

// Visits dated before firstDate, or from lastDate on, are those of a clock that was wrong: nothing is
// learnt of them. The database counts their dates as little (scheduler_go.last_seen_fresh).
var firstDate, lastDate = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// OriginFreshness is what is known of a listed origin for the policy freshness. Zero times
// are not known.
type OriginFreshness struct {
	model.OriginKey
	Lister        uuid.UUID
	Estimate      freshness.Estimate // zero: nothing was observed yet
	Prior         freshness.Estimate // of its lister, or visit type
	Cost, Typical time.Duration      // of a visit, and of those of its type
	Seen          time.Time          // its last visit that succeeded
	// Where its lister tells of updates: Updated is the last one that Estimate takes into account, and
	// Known until when it knows of changes.
	Updated, Known time.Time

	FirstSeen, LastSeen time.Time     // by its lister; a listing since that does not tell of it counts, too
	LastUpdate          time.Time     // that its lister tells now
	Listing             time.Duration // from one listing of its lister to the next
	Fork                bool
	Threshold           float64
	Longest             time.Duration // wait for a visit
	Complete            bool          // all origins of the visit type have moments
}

// Visited takes account of a visit that succeeded at a moment after Seen, and whether it
// changed something. It returns how likely that was; known is false if there was nothing to
// compare it with, or the visit had news of its lister for a cause, from which is learnt instead.
func (o *OriginFreshness) Visited(at time.Time, changed bool) (chance float64, known bool) {
	if !at.After(o.Seen) || at.Before(firstDate) || !at.Before(lastDate) {
		return 0, false
	}
	o.listed()
	since := o.Seen
	if o.told() {
		since = o.Known
	}
	if o.Seen.IsZero() {
		o.Known = at
	} else if !o.told() || !o.LastUpdate.After(o.Seen) {
		outcome := freshness.Unchanged
		if changed {
			outcome = freshness.Changed
		}
		chance, known = o.Origin(at).Chance(at.Sub(o.Seen)), true
		o.Estimate = o.Estimate.Observe(o.prior(at), at.Sub(since), outcome)
		o.Known = later(o.Known, at)
	}
	o.Seen = at
	return chance, known
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// listed takes account of an update that the lister has told of since Updated, and reports whether
// there was one.
func (o *OriginFreshness) listed() bool {
	if !o.told() || !o.LastUpdate.After(o.Updated) {
		return false
	}
	if o.Updated.IsZero() { // it isn't known when it had told of another one before
		o.Known = o.Seen
	} else {
		o.Estimate = o.Estimate.Told(o.prior(o.LastSeen), o.LastSeen.Sub(o.Known), o.LastSeen.Sub(o.LastUpdate), o.Listing)
		o.Known = later(o.Known, o.LastSeen)
	}
	o.Updated = o.LastUpdate
	return true
}

func (o *OriginFreshness) told() bool { return !o.LastUpdate.IsZero() }

// prior returns what is to be expected of the origin at a moment if no visit showed anything.
func (o *OriginFreshness) prior(at time.Time) freshness.Estimate {
	f := freshness.Facts{Lister: o.Prior, Fork: o.Fork, Age: at.Sub(o.FirstSeen)}
	if o.told() {
		f.SinceUpdate = at.Sub(o.LastUpdate)
	}
	return f.Prior()
}

// wastes is the price of a visit that finds nothing, in typical visits.
const wastes = 5

// Origin returns the origin as of its last visit. Its lister, if it tells of updates, is taken to go on
// listing as it did, unless it has stopped by now: then it vouches for nothing since.
func (o *OriginFreshness) Origin(now time.Time) freshness.Origin {
	of := freshness.Origin{Estimate: o.Estimate.Or(o.prior(o.Seen)), Cost: o.Cost, Useless: wastes * o.Typical}
	if o.told() {
		of.Listing, of.Updated = max(o.Listing, now.Sub(o.LastSeen)), max(0, o.LastUpdate.Sub(o.Seen))
	}
	return of
}

// Moment returns when a visit is worth its cost, as it seems now. If there was none, that is since
// the origin was listed.
func (o *OriginFreshness) Moment(now time.Time) time.Time {
	if o.Seen.IsZero() {
		return o.FirstSeen
	}
	return o.Seen.Add(o.Origin(now).Moment(o.Threshold, o.Longest))
}

// quiet returns when the next visit is worth its cost if the lister tells of no update until then, as
// it seems now, or at the last visit if that is later.
func (o *OriginFreshness) quiet(now time.Time) time.Time {
	origin := o.Origin(later(now, o.Seen))
	origin.Updated = 0
	return o.Seen.Add(origin.Moment(o.Threshold, o.Longest))
}

// OriginFreshness returns what is known of those of the origins that are listed and whose
// visit types have the policy freshness.
func (s CandidateQueries) OriginFreshness(ctx context.Context, origins []model.OriginKey) ([]OriginFreshness, error) {
	all, err := originFreshness(ctx, s.q, origins)
	return all, failed(err, "read the freshness of %d origins", len(origins))
}

func originFreshness(ctx context.Context, q *queries.Queries, origins []model.OriginKey) ([]OriginFreshness, error) {
	rows, err := q.OriginFreshness(ctx, columns[queries.OriginFreshnessParams](origins))
	return list(rows, err, func(r queries.OriginFreshnessRow) OriginFreshness {
		return OriginFreshness{
			OriginKey: model.OriginKey{URL: r.URL, VisitType: r.VisitType}, Lister: r.ListerID,
			Estimate: freshness.Estimate{Changes: r.Changes, Days: r.Days}, Prior: freshness.Estimate{Changes: r.PriorChanges, Days: r.PriorDays},
			Cost: model.Duration(r.Cost), Typical: model.Duration(r.TypicalCost), Seen: r.Seen, Updated: r.Updated, Known: r.Listed,
			FirstSeen: r.FirstSeen, LastSeen: r.LastSeen, LastUpdate: r.LastUpdate, Listing: model.Duration(r.Listing), Fork: r.Fork,
			Threshold: r.Threshold, Longest: model.Duration(r.Longest), Complete: r.Complete,
		}
	})
}

// writeFreshness writes estimates and moments, as they seem now, of origins that have been seen.
func writeFreshness(ctx context.Context, q *queries.Queries, origins []OriginFreshness, now time.Time) error {
	var p queries.WriteFreshnessParams
	for i := range origins {
		o := &origins[i]
		p.Urls, p.VisitTypes = append(p.Urls, o.URL), append(p.VisitTypes, o.VisitType)
		p.Changes, p.Days = append(p.Changes, float32(o.Estimate.Changes)), append(p.Days, float32(o.Estimate.Days))
		p.Cost, p.Seen, p.Moments = append(p.Cost, float32(o.Cost.Seconds())), append(p.Seen, o.Seen), append(p.Moments, o.quiet(now))
		p.Updated, p.Listed = append(p.Updated, o.Updated), append(p.Listed, o.Known)
	}
	if len(p.Urls) == 0 {
		return nil
	}
	return q.WriteFreshness(ctx, p)
}

// ConfigureFreshness sets the visit types that have the policy freshness, each with the longest
// time that an origin waits for a visit.
func (s CandidateStore) ConfigureFreshness(ctx context.Context, longest map[string]time.Duration) error {
	p := queries.ConfigureFreshnessParams{
		VisitTypes: []string{}, Walk: freshnessName, Cost: expectedCost.Seconds(), Changes: freshness.General.Changes, Days: freshness.General.Days,
		Threshold: freshness.Controller{}.Step(time.Time{}, false, 0).Threshold,
	}
	for _, visitType := range slices.Sorted(maps.Keys(longest)) { // rows are locked in that order
		p.VisitTypes, p.Longest = append(p.VisitTypes, visitType), append(p.Longest, longest[visitType].Seconds())
	}
	return failed(s.q.ConfigureFreshness(ctx, p), "set the visit types with the policy freshness")
}

// FreshnessCounts is what a walk over candidates has found of a visit type.
type FreshnessCounts struct {
	Origins   int64   // that were visited
	Staleness float64 // their sum, in seconds
	Told      int64   // those of them whose listers tell of updates
	Known     float64 // the sum of their staleness
	Threshold float64 // as of the walk's begin
}

type freshnessWalk struct {
	VisitTypes map[string]FreshnessCounts
	Listers    map[string]freshness.Population // by visit type and lister
}

const (
	freshnessEvery = 6 * time.Hour // between walks, and how long one takes
	freshnessPages = 32            // of candidates, in a step: some 2,500 rows
	freshnessName  = "moments of candidates"
)

// KeepFreshness does a minute's part of the walk that computes moments anew, by thresholds that
// have moved and by what listers have told. It works for at most about atMost. One process at a
// time calls it.
func (s CandidateStore) KeepFreshness(ctx context.Context, now time.Time, atMost time.Duration) error {
	_, err := s.momentsWalk(now, freshnessEvery).take(ctx, s.q, atMost)
	return err
}

// RenewMoments takes the walk of KeepFreshness from its beginning to its end, whether it is due or not, as
// simulated time needs it. It does nothing while candidates are not built.
func (s CandidateStore) RenewMoments(ctx context.Context, now time.Time) error {
	err := s.q.CancelWalk(ctx, freshnessName)
	if err == nil {
		_, err = s.momentsWalk(now, 0).take(ctx, s.q, math.MaxInt64)
	}
	return failed(err, "compute moments anew")
}

func (s CandidateStore) momentsWalk(now time.Time, over time.Duration) walk[freshnessWalk] {
	return walk[freshnessWalk]{
		name: freshnessName, every: freshnessEvery, over: over, most: freshnessPages,
		begin: func(ctx context.Context) (int64, freshnessWalk, error) {
			return 0, freshnessWalk{map[string]FreshnessCounts{}, map[string]freshness.Population{}}, s.q.ApplyThresholds(ctx)
		},
		end: s.q.CandidatePages,
		step: func(ctx context.Context, first, end int64, found *freshnessWalk) error {
			return s.computeMoments(ctx, now, first, end, found)
		},
		finish: func(ctx context.Context, found freshnessWalk) error {
			listers, err := listerFreshness(found.Listers)
			if err != nil {
				return err
			}
			return s.q.SetListerFreshness(ctx, listers)
		},
	}
}

// MomentsComplete reports whether all origins of a visit type have the moments by which the policy
// freshness picks them.
func (tx *Tx) MomentsComplete(ctx context.Context, visitType string) (bool, error) {
	k, err := firstOrZero(tx.q.FreshnessControl(ctx, visitType))
	return k.Complete, failed(err, "read the threshold of visit type %q", visitType)
}

// ForgetFreshness does a part of the daily walk that forgets the estimates of origins that have not
// been visited for twice the longest wait: they are gone, or their visit type has lost the policy. It
// works for about atMost.
func (s CandidateStore) ForgetFreshness(ctx context.Context, now time.Time, atMost time.Duration) error {
	_, err := walk[struct{}]{
		name: "old estimates", every: 24 * time.Hour, most: 256,
		begin: beginAt(func(context.Context) (int64, error) { return 0, nil }),
		end:   s.q.FreshnessPages,
		step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			return s.q.ForgetFreshness(ctx, queries.ForgetFreshnessParams{FirstPage: first, EndPage: end, Now: now, Longest: model.DefaultLongestWait.Seconds()})
		},
	}.take(ctx, s.q, atMost)
	return err
}

// stepEvery is how often a claim adjusts the threshold, and pricedVisits of how many of its visits
// the prices are looked at then.
const (
	stepEvery    = time.Minute
	pricedVisits = 100
)

// StepThreshold adjusts the threshold of a visit type that has the policy freshness, after a claim
// at now. busy is whether messages waited for a worker before it. due are origins that the policy
// picked, if more may have been due; they are in random order or that of their moments.
func (tx *Tx) StepThreshold(ctx context.Context, visitType string, now time.Time, busy bool, due []model.OriginKey) error {
	k, err := firstOrZero(tx.q.FreshnessControl(ctx, visitType))
	if err != nil || k.Threshold == 0 || k.Stepped != nil && now.Sub(*k.Stepped).Abs() < stepEvery {
		return failed(err, "read the threshold of visit type %q", visitType)
	}
	var prices []float64
	if len(due) > 0 {
		var some []model.OriginKey
		for i := range min(len(due), pricedVisits) {
			some = append(some, due[i*len(due)/min(len(due), pricedVisits)])
		}
		origins, err := originFreshness(ctx, tx.q, some)
		if err != nil {
			return failed(err, "read what visits are worth")
		}
		for _, o := range origins {
			// What the longest wait made due is worth less than the threshold.
			if since := now.Sub(o.Seen); !o.Seen.IsZero() && since < o.Longest {
				prices = append(prices, o.Origin(now).Value(since))
			}
		}
	}
	price := 0.0
	if len(prices) > 0 {
		slices.Sort(prices)
		price = prices[len(prices)/4] // as freshness.Controller asks, and the simulator does
	}
	c := freshness.Controller{Threshold: k.Threshold, At: orZero(k.Stepped)}.Step(now, busy, price)
	return failed(tx.q.StepFreshness(ctx, queries.StepFreshnessParams{VisitType: visitType, Threshold: c.Threshold, Stepped: &c.At}),
		"write the threshold of visit type %q", visitType)
}

// computeMoments computes the moments of the candidates on some pages, and adds up what is known
// of them at now. It writes those that are off, and where a lister told of an update. It waits for
// who drains.
func (s CandidateStore) computeMoments(ctx context.Context, now time.Time, first, end int64, found *freshnessWalk) error {
	return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.q.LockCandidates(ctx); err != nil {
			return err
		}
		if _, err := tx.tx.Exec(ctx, pinPlans); err != nil {
			return err
		}
		rows, err := tx.q.FreshCandidates(ctx, queries.FreshCandidatesParams{FirstPage: first, EndPage: end})
		if err != nil || len(rows) == 0 {
			return err
		}
		keys, moments := make([]model.OriginKey, len(rows)), make(map[model.OriginKey]time.Time, len(rows))
		for i, r := range rows {
			keys[i] = model.OriginKey{URL: r.URL, VisitType: r.VisitType}
			moments[keys[i]] = r.Moment
		}
		origins, err := originFreshness(ctx, tx.q, keys)
		if err != nil {
			return err
		}
		var changed []OriginFreshness
		var off []string
		for i := range origins {
			o := &origins[i]
			news, moved := o.listed(), o.off(moments[o.OriginKey], now)
			delete(moments, o.OriginKey)
			if moved {
				off = append(off, o.URL)
			}
			if o.Seen.IsZero() {
				continue
			}
			found.add(o, now)
			// What ForgetFreshness forgets is no news each time.
			if forgotten := now.Sub(o.Seen)/2 > o.Longest; moved || news && !forgotten {
				changed = append(changed, *o)
			}
		}
		for key := range moments { // their visit type has lost the policy
			off = append(off, key.URL)
		}
		if err := writeFreshness(ctx, tx.q, changed, now); err != nil || len(off) == 0 {
			return err
		}
		return tx.q.SetMoments(ctx, queries.SetMomentsParams{FirstPage: first, EndPage: end, Urls: off})
	})
}

// off reports whether a candidate's moment is not about what it should be now.
func (o *OriginFreshness) off(moment, now time.Time) bool {
	if o.Seen.IsZero() || moment.IsZero() {
		return !moment.Equal(o.Moment(now))
	}
	origin := o.Origin(now)
	if o.LastUpdate.After(o.Seen) { // moment_of then takes its lister's prior as it is
		origin.Estimate = o.Estimate.Or(o.Prior)
	}
	low, high := origin.Thresholds(moment.Sub(o.Seen), o.Longest)
	return o.Threshold < low || o.Threshold > high
}

func (w *freshnessWalk) add(o *OriginFreshness, now time.Time) {
	staleness := o.Origin(now).Staleness(now.Sub(o.Seen)).Seconds()
	n := w.VisitTypes[o.VisitType]
	n.Origins, n.Staleness, n.Threshold = n.Origins+1, n.Staleness+staleness, o.Threshold
	if o.told() {
		n.Told, n.Known = n.Told+1, n.Known+staleness
	}
	w.VisitTypes[o.VisitType] = n
	key := o.VisitType + " " + o.Lister.String()
	lister := w.Listers[key]
	lister.Add(o.Estimate)
	w.Listers[key] = lister
}

// listerFreshness returns the estimates of listers of which enough is known.
func listerFreshness(listers map[string]freshness.Population) (p queries.SetListerFreshnessParams, err error) {
	p.Walk, p.VisitTypes, p.Listers = freshnessName, []string{}, []uuid.UUID{}
	for key, population := range listers {
		visitType, lister, _ := strings.Cut(key, " ")
		id, err := uuid.Parse(lister)
		if err != nil {
			return p, err
		}
		if e := population.Prior(); e != (freshness.Estimate{}) {
			p.VisitTypes, p.Listers = append(p.VisitTypes, visitType), append(p.Listers, id)
			p.Changes, p.Days = append(p.Changes, float32(e.Changes)), append(p.Days, float32(e.Days))
		}
	}
	return p, nil
}
