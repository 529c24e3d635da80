package db

import (
	"context"
	"math"
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
//	listing ──► listed_origins ──► drain: moment_of ──► candidates.moment ──► grab
//	control, each minute ──► threshold ──► walk: moments computed again ──┘
//
// Nothing of this is read or written where no visit type is in scheduler_go.freshness_control.

// expectedCost is how long a visit is expected to take of which no lane remembers anything.
const expectedCost = time.Minute

// OriginFreshness is what is known of a listed origin for the policy freshness. Zero times
// are not known.
type OriginFreshness struct {
	model.OriginKey
	Lister     uuid.UUID
	Estimate   freshness.Estimate // zero: none yet
	Prior      freshness.Estimate // of its lister, or visit type
	Cost       time.Duration      // of a visit
	Seen       time.Time          // its last visit that succeeded
	Updated    time.Time          // the last update that its lister told of at that visit
	FirstSeen  time.Time
	LastUpdate time.Time // that its lister tells now
	Fork       bool
	Threshold  float64
	Longest    time.Duration // wait for a visit
}

// Visited takes account of a visit that succeeded at a moment after Seen, and whether it
// changed something. It returns how likely that was; known is false if there was nothing to
// compare it with, or its lister told of an update.
func (o *OriginFreshness) Visited(at time.Time, changed bool) (chance float64, known bool) {
	if !at.After(o.Seen) {
		return 0, false
	}
	prior := o.prior(at)
	e := o.Estimate.Or(prior)
	switch gap := at.Sub(o.Seen); {
	case o.Seen.IsZero():
	case o.told():
		if o.LastUpdate.After(o.Updated) && !o.Updated.IsZero() {
			e = e.Observe(prior, o.LastUpdate.Sub(o.Updated), freshness.ChangedAt)
		}
	case changed:
		chance, known = e.Chance(gap), true
		e = e.Observe(prior, gap, freshness.Changed)
	default:
		chance, known = e.Chance(gap), true
		e = e.Observe(prior, gap, freshness.Unchanged)
	}
	o.Estimate, o.Seen, o.Updated = e, at, o.LastUpdate
	return chance, known
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

// Origin returns the origin as it is, and since when it may be stale. One that was never
// visited is stale since it was first seen.
func (o *OriginFreshness) Origin() (freshness.Origin, time.Time) {
	if o.Seen.IsZero() {
		return freshness.Origin{Estimate: o.Prior, Cost: o.Cost, Told: true, Updated: 1}, o.FirstSeen
	}
	of := freshness.Origin{Estimate: o.Estimate.Or(o.prior(o.Seen)), Cost: o.Cost, Told: o.told()}
	if o.told() {
		of.Updated = max(0, o.LastUpdate.Sub(o.Seen))
	}
	return of, o.Seen
}

// Moment returns when a visit is worth its cost.
func (o *OriginFreshness) Moment() time.Time {
	origin, since := o.Origin()
	return since.Add(origin.Moment(o.Threshold, o.Longest))
}

// quiet returns when the next visit is worth its cost if the lister tells of no update until then.
func (o *OriginFreshness) quiet() time.Time {
	origin, since := o.Origin()
	origin.Updated = 0
	return since.Add(origin.Moment(o.Threshold, o.Longest))
}

// OriginFreshness returns what is known of those of the origins that are listed and whose
// visit types have the policy freshness.
func (s CandidateQueries) OriginFreshness(ctx context.Context, origins []model.OriginKey) ([]OriginFreshness, error) {
	all, err := originFreshness(ctx, s.q, origins)
	return all, failed(err, "read the freshness of %d origins", len(origins))
}

func originFreshness(ctx context.Context, q *queries.Queries, origins []model.OriginKey) ([]OriginFreshness, error) {
	var p queries.OriginFreshnessParams
	for _, o := range origins {
		p.Urls, p.VisitTypes = append(p.Urls, o.URL), append(p.VisitTypes, o.VisitType)
	}
	rows, err := q.OriginFreshness(ctx, p)
	return list(rows, err, func(r queries.OriginFreshnessRow) OriginFreshness {
		return OriginFreshness{
			OriginKey: model.OriginKey{URL: r.URL, VisitType: r.VisitType}, Lister: r.ListerID,
			Estimate: freshness.Estimate{Changes: r.Changes, Days: r.Days}, Prior: freshness.Estimate{Changes: r.PriorChanges, Days: r.PriorDays},
			Cost: model.Duration(r.Cost), Seen: r.Seen, Updated: r.Updated, FirstSeen: r.FirstSeen, LastUpdate: r.LastUpdate, Fork: r.Fork,
			Threshold: r.Threshold, Longest: model.Duration(r.Longest),
		}
	})
}

// writeFreshness writes estimates and moments of origins that have been seen.
func writeFreshness(ctx context.Context, q *queries.Queries, origins []OriginFreshness) error {
	var p queries.WriteFreshnessParams
	for i := range origins {
		o := &origins[i]
		e := o.Estimate.Or(o.prior(o.Seen))
		p.Urls, p.VisitTypes = append(p.Urls, o.URL), append(p.VisitTypes, o.VisitType)
		p.Changes, p.Days, p.Cost = append(p.Changes, float32(e.Changes)), append(p.Days, float32(e.Days)), append(p.Cost, float32(o.Cost.Seconds()))
		p.Seen, p.Updated, p.Moments = append(p.Seen, o.Seen), append(p.Updated, o.LastUpdate), append(p.Moments, o.quiet())
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
		VisitTypes: []string{}, Cost: expectedCost.Seconds(), Changes: freshness.General.Changes, Days: freshness.General.Days,
	}
	for visitType, wait := range longest {
		p.VisitTypes, p.Longest = append(p.VisitTypes, visitType), append(p.Longest, wait.Seconds())
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

// rates are the logarithms of the rates of a lister's origins that are known well.
type rates struct{ N, Sum, Squares float64 }

type freshnessWalk struct {
	VisitTypes map[string]FreshnessCounts
	Listers    map[string]rates // by visit type and lister
}

const (
	freshnessEvery = 6 * time.Hour // between walks, and how long one takes
	freshnessPages = 32            // of candidates, in a step: some 2,500 rows
	freshnessName  = "moments of candidates"

	wellKnown = 0.5 // the least certainty of a rate from which that of its lister is learnt
	manyRates = 20  // how many it takes
)

// KeepFreshness does a minute's part of what the policy freshness needs: the control's step, and
// of the walk that computes moments by the new threshold. It works for at most about atMost. One
// process at a time calls it.
func (s CandidateStore) KeepFreshness(ctx context.Context, now time.Time, atMost time.Duration) error {
	if err := s.stepThresholds(ctx, now); err != nil {
		return failed(err, "step the thresholds of the policy freshness")
	}
	_, err := walk[freshnessWalk]{
		name: freshnessName, every: freshnessEvery, over: freshnessEvery, most: freshnessPages,
		begin: func(ctx context.Context) (int64, freshnessWalk, error) {
			return 0, freshnessWalk{map[string]FreshnessCounts{}, map[string]rates{}}, s.q.ApplyThresholds(ctx)
		},
		end:  s.q.CandidatePages,
		step: func(ctx context.Context, first, end int64, found *freshnessWalk) error { return s.computeMoments(ctx, now, first, end, found) },
		finish: func(ctx context.Context, found freshnessWalk) error {
			return s.q.SetListerFreshness(ctx, listerFreshness(found.Listers))
		},
	}.take(ctx, s.q, atMost)
	return err
}

// stepThresholds steps the control of each visit type: it goes by how long the next visit has
// been due.
func (s CandidateStore) stepThresholds(ctx context.Context, now time.Time) error {
	controls, err := s.q.FreshnessControls(ctx)
	if err != nil || len(controls) == 0 {
		return err
	}
	return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if _, err := tx.tx.Exec(ctx, pinPlans); err != nil {
			return err
		}
		for _, k := range controls {
			next, err := tx.q.NextMoment(ctx, queries.NextMomentParams{VisitType: k.VisitType, Now: now})
			if err != nil {
				return err
			}
			if len(next) == 0 { // all cool down: there is more capacity than work
				next = []time.Time{now}
			}
			c := freshness.Controller{Threshold: k.Threshold, Lag: model.Duration(k.Lag), At: orZero(k.Stepped)}.Step(now, now.Sub(next[0]))
			if err := tx.q.StepFreshness(ctx, queries.StepFreshnessParams{
				VisitType: k.VisitType, Threshold: c.Threshold, Lag: c.Lag.Seconds(), Stepped: &c.At,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// computeMoments computes the moments of the candidates on some pages, and adds up what is known
// of them at now. It waits for who drains.
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
		keys := make([]model.OriginKey, len(rows))
		for i, r := range rows {
			keys[i] = model.OriginKey(r)
		}
		origins, err := originFreshness(ctx, tx.q, keys)
		if err != nil {
			return err
		}
		seen := origins[:0]
		for _, o := range origins {
			if !o.Seen.IsZero() {
				seen = append(seen, o)
				found.add(&o, now)
			}
		}
		if err := writeFreshness(ctx, tx.q, seen); err != nil {
			return err
		}
		_, err = tx.q.SetMoments(ctx, queries.SetMomentsParams{FirstPage: first, EndPage: end})
		return err
	})
}

func (w *freshnessWalk) add(o *OriginFreshness, now time.Time) {
	origin, since := o.Origin()
	staleness := origin.Staleness(now.Sub(since)).Seconds()
	n := w.VisitTypes[o.VisitType]
	n.Origins, n.Staleness, n.Threshold = n.Origins+1, n.Staleness+staleness, o.Threshold
	if o.told() {
		n.Told, n.Known = n.Told+1, n.Known+staleness
	}
	w.VisitTypes[o.VisitType] = n
	if o.Estimate.Certainty() < wellKnown {
		return
	}
	key, rate := o.VisitType+" "+o.Lister.String(), math.Log(o.Estimate.Rate())
	r := w.Listers[key]
	w.Listers[key] = rates{r.N + 1, r.Sum + rate, r.Squares + rate*rate}
}

// listerFreshness returns the estimates of listers with enough origins that are known well.
func listerFreshness(listers map[string]rates) (p queries.SetListerFreshnessParams) {
	p.VisitTypes, p.Listers = []string{}, []uuid.UUID{}
	for key, r := range listers {
		mean := r.Sum / r.N
		e := freshness.OfRates(mean, r.Squares/r.N-mean*mean)
		visitType, lister, _ := strings.Cut(key, " ")
		id, err := uuid.Parse(lister)
		if r.N < manyRates || e == (freshness.Estimate{}) || err != nil {
			continue
		}
		p.VisitTypes, p.Listers = append(p.VisitTypes, visitType), append(p.Listers, id)
		p.Changes, p.Days = append(p.Changes, float32(e.Changes)), append(p.Days, float32(e.Days))
	}
	return p
}
