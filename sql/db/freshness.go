package db

import (
	"context"
	"maps"
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

// OriginFreshness is what is known of a listed origin for the policy freshness. Zero times
// are not known.
type OriginFreshness struct {
	model.OriginKey
	Lister        uuid.UUID
	Estimate      freshness.Estimate // zero: nothing was observed yet
	Prior         freshness.Estimate // of its lister, or visit type
	Cost, Typical time.Duration      // of a visit, and of those of its type
	Seen          time.Time          // its last visit that succeeded
	// Updated is the last update that its lister told of, as far as Estimate knows, and Listed
	// when the lister had last seen it when it told of that.
	Updated, Listed time.Time

	FirstSeen, LastSeen time.Time     // by its lister
	LastUpdate          time.Time     // that its lister tells now
	Listing             time.Duration // from one listing of its lister to the next
	Fork                bool
	Threshold           float64
	Longest             time.Duration // wait for a visit
}

// Visited takes account of a visit that succeeded at a moment after Seen, and whether it
// changed something. It returns how likely that was; known is false if there was nothing to
// compare it with, or its lister tells of updates, from which is learnt instead.
func (o *OriginFreshness) Visited(at time.Time, changed bool) (chance float64, known bool) {
	if !at.After(o.Seen) {
		return 0, false
	}
	o.listed()
	if gap := at.Sub(o.Seen); !o.Seen.IsZero() && !o.told() {
		outcome := freshness.Unchanged
		if changed {
			outcome = freshness.Changed
		}
		chance, known = o.Estimate.Or(o.prior(at)).Chance(gap), true
		o.Estimate = o.Estimate.Observe(o.prior(at), gap, outcome)
	}
	o.Seen = at
	return chance, known
}

// listed takes account of an update that the lister has told of since Updated.
func (o *OriginFreshness) listed() {
	if !o.told() || !o.LastUpdate.After(o.Updated) {
		return
	}
	if !o.Updated.IsZero() {
		o.Estimate = o.Estimate.Told(o.prior(o.LastSeen), o.LastSeen.Sub(o.Listed), o.LastSeen.Sub(o.LastUpdate), o.Listing)
	}
	o.Updated, o.Listed = o.LastUpdate, o.LastSeen
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

// Origin returns the origin as of its last visit.
func (o *OriginFreshness) Origin() freshness.Origin {
	of := freshness.Origin{Estimate: o.Estimate.Or(o.prior(o.Seen)), Cost: o.Cost, Useless: wastes * o.Typical}
	if o.told() {
		of.Listing, of.Updated = o.Listing, max(0, o.LastUpdate.Sub(o.Seen))
	}
	return of
}

// Moment returns when a visit is worth its cost. If there was none, that is since the origin
// was listed.
func (o *OriginFreshness) Moment() time.Time {
	if o.Seen.IsZero() {
		return o.FirstSeen
	}
	return o.Seen.Add(o.Origin().Moment(o.Threshold, o.Longest))
}

// quiet returns when the next visit is worth its cost if the lister tells of no update until then.
func (o *OriginFreshness) quiet() time.Time {
	origin := o.Origin()
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
	var p queries.OriginFreshnessParams
	for _, o := range origins {
		p.Urls, p.VisitTypes = append(p.Urls, o.URL), append(p.VisitTypes, o.VisitType)
	}
	rows, err := q.OriginFreshness(ctx, p)
	return list(rows, err, func(r queries.OriginFreshnessRow) OriginFreshness {
		return OriginFreshness{
			OriginKey: model.OriginKey{URL: r.URL, VisitType: r.VisitType}, Lister: r.ListerID,
			Estimate: freshness.Estimate{Changes: r.Changes, Days: r.Days}, Prior: freshness.Estimate{Changes: r.PriorChanges, Days: r.PriorDays},
			Cost: model.Duration(r.Cost), Typical: model.Duration(r.TypicalCost), Seen: r.Seen, Updated: r.Updated, Listed: r.Listed,
			FirstSeen: r.FirstSeen, LastSeen: r.LastSeen, LastUpdate: r.LastUpdate, Listing: model.Duration(r.Listing), Fork: r.Fork,
			Threshold: r.Threshold, Longest: model.Duration(r.Longest),
		}
	})
}

// writeFreshness writes estimates and moments of origins that have been seen.
func writeFreshness(ctx context.Context, q *queries.Queries, origins []OriginFreshness) error {
	var p queries.WriteFreshnessParams
	for i := range origins {
		o := &origins[i]
		p.Urls, p.VisitTypes = append(p.Urls, o.URL), append(p.VisitTypes, o.VisitType)
		p.Changes, p.Days = append(p.Changes, float32(o.Estimate.Changes)), append(p.Days, float32(o.Estimate.Days))
		p.Cost, p.Seen, p.Moments = append(p.Cost, float32(o.Cost.Seconds())), append(p.Seen, o.Seen), append(p.Moments, o.quiet())
		p.Updated, p.Listed = append(p.Updated, o.Updated), append(p.Listed, o.Listed)
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
	_, err := walk[freshnessWalk]{
		name: freshnessName, every: freshnessEvery, over: freshnessEvery, most: freshnessPages,
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
				prices = append(prices, o.Origin().Value(since))
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
				o.listed()
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
	staleness := o.Origin().Staleness(now.Sub(o.Seen)).Seconds()
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
	p.VisitTypes, p.Listers = []string{}, []uuid.UUID{}
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
