package origins

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
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// The policy freshness (internal/freshness, docs/explanation/freshness.md) picks origins by their moments.
// An origin's moment is when a visit becomes worth its cost. It depends on how often visits found a change
// (scheduler_go.freshness, written with the visit stats), on the updates that the lister reports, and on a
// threshold. The threshold follows the workers' capacity.
//
//	visit ──► freshness: estimate, moment without updates ──┐
//	listing ──► listed_origins ──► drain: moment_of ──► candidates.moment ──► claim
//	                     walk: moments computed again ──────┘                   │
//	                       ▲                                                    │
//	                       └──────────────── threshold ◄── prices of its visits ┘
//
// Without a visit type in scheduler_go.freshness_control, none of this is read or written.

// expectedCost is the expected duration of a visit to an origin without earlier visits on lanes.
const expectedCost = time.Minute

// OriginFreshness is the policy freshness' state of a listed origin.
type OriginFreshness struct {
	model.OriginKey
	Lister uuid.UUID
	Weight float64 // of its lister: how much its staleness counts; Threshold is divided by it
	// News has the quality of the origin's news: of its lister's, or of the hints of HintSource if the news is one of them.
	freshness.History
	HintSource string
	Complete   bool // all origins of the visit type have moments
}

// OriginFreshness returns the state of those origins that are listed and whose visit types have the policy
// freshness.
func (s Queries) OriginFreshness(ctx context.Context, origins []model.OriginKey) ([]OriginFreshness, error) {
	all, err := FreshnessOf(ctx, s.q, origins)
	return all, stmt.Failed(err, "read the freshness of %d origins", len(origins))
}

func FreshnessOf(ctx context.Context, q *queries.Queries, origins []model.OriginKey) ([]OriginFreshness, error) {
	rows, err := q.OriginFreshness(ctx, stmt.Columns[queries.OriginFreshnessParams](origins))
	return stmt.List(rows, err, func(r queries.OriginFreshnessRow) OriginFreshness {
		return OriginFreshness{
			OriginKey: model.OriginKey{URL: r.URL, VisitType: r.VisitType}, Lister: r.ListerID, Weight: r.Weight, HintSource: r.HintSource, Complete: r.Complete, History: freshness.History{
				Estimate: freshness.Estimate{Changes: r.Changes, Days: r.Days}, Prior: freshness.Estimate{Changes: r.PriorChanges, Days: r.PriorDays},
				Cost: model.Duration(r.Cost), Typical: model.Duration(r.TypicalCost), LastVisit: r.Seen, Updated: r.Updated, CoveredUntil: r.Listed,
				FirstSeen: r.FirstSeen, LastSeen: r.LastSeen, LastUpdate: r.LastUpdate, Listing: model.Duration(r.Listing), Fork: r.Fork, FirstNews: r.News,
				News:      freshness.Quality{Right: r.RightNews, Wrong: r.WrongNews, Reported: r.Reported, Missed: r.Missed},
				Threshold: r.Threshold, Longest: model.Duration(r.Longest),
			},
		}
	})
}

// WriteFreshness writes the estimates of visited origins, and their moments as of now.
func WriteFreshness(ctx context.Context, q *queries.Queries, origins []OriginFreshness, now time.Time) error {
	var p queries.WriteFreshnessParams
	for i := range origins {
		o := &origins[i]
		p.Urls, p.VisitTypes = append(p.Urls, o.URL), append(p.VisitTypes, o.VisitType)
		p.Changes, p.Days = append(p.Changes, float32(o.Estimate.Changes)), append(p.Days, float32(o.Estimate.Days))
		p.Cost, p.Seen, p.Moments = append(p.Cost, float32(o.Cost.Seconds())), append(p.Seen, o.LastVisit), append(p.Moments, o.MomentWithoutUpdate(now))
		p.Updated, p.Listed = append(p.Updated, o.Updated), append(p.Listed, o.CoveredUntil)
		p.News, p.Waits = append(p.News, o.FirstNews), append(p.Waits, float32(o.NewsWait(now)))
	}
	if len(p.Urls) == 0 {
		return nil
	}
	return q.WriteFreshness(ctx, p)
}

// A Newscaster is a lister whose news of origins of a visit type have a quality.
type Newscaster struct {
	VisitType string
	Lister    uuid.UUID
}

// RecordNews adds what visits have shown of the quality of listers' news.
func RecordNews(ctx context.Context, q *queries.Queries, seen map[Newscaster]freshness.Quality) error {
	if len(seen) == 0 {
		return nil
	}
	var p queries.RecordNewsParams
	for of, n := range seen {
		p.VisitTypes, p.Listers = append(p.VisitTypes, of.VisitType), append(p.Listers, of.Lister)
		p.RightNews, p.WrongNews = append(p.RightNews, float32(n.Right)), append(p.WrongNews, float32(n.Wrong))
		p.Reported, p.Missed = append(p.Reported, float32(n.Reported)), append(p.Missed, float32(n.Missed))
	}
	return q.RecordNews(ctx, p)
}

// ConfigureFreshness sets the visit types with the policy freshness, each with the longest wait of an
// origin.
func (s Store) ConfigureFreshness(ctx context.Context, longest map[string]time.Duration) error {
	p := queries.ConfigureFreshnessParams{
		VisitTypes: []string{}, Walk: freshnessName, Cost: expectedCost.Seconds(), Changes: freshness.General.Changes, Days: freshness.General.Days,
		Threshold: freshness.Controller{}.Step(time.Time{}, false, 0).Threshold,
	}
	for _, visitType := range slices.Sorted(maps.Keys(longest)) { // sorted: the order of row locks
		p.VisitTypes, p.Longest = append(p.VisitTypes, visitType), append(p.Longest, longest[visitType].Seconds())
	}
	return stmt.Failed(s.q.ConfigureFreshness(ctx, p), "set the visit types with the policy freshness")
}

// FreshnessCounts is the result of a walk over candidates for a visit type.
type FreshnessCounts struct {
	Origins           int64   // visited origins
	Staleness         float64 // the sum of their expected staleness, in seconds
	Measured          int64   // those whose listers report updates
	MeasuredStaleness float64 // the part of Staleness that belongs to Told
	Threshold         float64 // at the beginning of the walk
}

type freshnessWalk struct {
	VisitTypes map[string]FreshnessCounts
	Listers    map[string]freshness.Population // by visit type and lister
}

// FreshnessCounts returns the results of the last complete walk by visit type.
func (s Queries) FreshnessCounts(ctx context.Context) (map[string]FreshnessCounts, error) {
	found, err := bulk.ResultOf[freshnessWalk](ctx, s.q, freshnessName)
	return found.VisitTypes, err
}

const (
	freshnessEvery = 6 * time.Hour // the period of walks, and the duration of one
	freshnessPages = 32            // of candidates in a step: some 2,500 rows
	freshnessName  = "moments of candidates"
)

// MaintainFreshness takes steps, for about atMost, of the walk that recomputes moments, as thresholds
// change and listers report updates. It expects a call a minute. One process at a time calls it.
func (s Store) MaintainFreshness(ctx context.Context, now time.Time, atMost time.Duration) error {
	_, err := s.momentsWalk(now, freshnessEvery).Take(ctx, s.q, atMost)
	return err
}

// RenewMoments does a complete walk of MaintainFreshness at once, due or not, for simulated time. It does
// nothing while candidates are not built.
func (s Store) RenewMoments(ctx context.Context, now time.Time) error {
	err := s.q.CancelWalk(ctx, freshnessName)
	if err == nil {
		_, err = s.momentsWalk(now, 0).Take(ctx, s.q, math.MaxInt64)
	}
	return stmt.Failed(err, "compute moments anew")
}

func (s Store) momentsWalk(now time.Time, over time.Duration) bulk.Walk[freshnessWalk] {
	return bulk.Walk[freshnessWalk]{
		Name: freshnessName, Period: freshnessEvery, Over: over, StepSize: freshnessPages,
		Begin: func(ctx context.Context) (int64, freshnessWalk, error) {
			return 0, freshnessWalk{map[string]FreshnessCounts{}, map[string]freshness.Population{}}, s.q.ApplyThresholds(ctx)
		},
		End: s.q.CandidatePages,
		Step: func(ctx context.Context, first, end int64, found *freshnessWalk) error {
			return s.computeMoments(ctx, now, first, end, found)
		},
		Finish: func(ctx context.Context, found freshnessWalk) error {
			listers, err := listerFreshness(found.Listers)
			if err != nil {
				return err
			}
			return s.q.SetListerFreshness(ctx, listers)
		},
	}
}

// MomentsComplete reports whether all origins of a visit type have moments.
func (tx *Tx) MomentsComplete(ctx context.Context, visitType string) (bool, error) {
	k, err := stmt.FirstOrZero(tx.q.FreshnessControl(ctx, visitType))
	return k.Complete, stmt.Failed(err, "read the threshold of visit type %q", visitType)
}

// ForgetFreshness takes steps, for about atMost, of a daily walk. The walk deletes the estimates of origins
// without a visit for twice the longest wait: they are gone, or their visit type has lost the policy.
func (s Store) ForgetFreshness(ctx context.Context, now time.Time, atMost time.Duration) error {
	_, err := bulk.Walk[struct{}]{
		Name: "old estimates", Period: 24 * time.Hour, StepSize: 256,
		Begin: bulk.BeginAt(func(context.Context) (int64, error) { return 0, nil }),
		End:   s.q.FreshnessPages,
		Step: func(ctx context.Context, first, end int64, _ *struct{}) error {
			return s.q.ForgetFreshness(ctx, queries.ForgetFreshnessParams{FirstPage: first, EndPage: end, Now: now, Longest: model.DefaultLongestWait.Seconds()})
		},
	}.Take(ctx, s.q, atMost)
	return err
}

// A claim adjusts the threshold every stepEvery, by the values of its visits. It computes the values of
// pricedVisits of them.
const (
	stepEvery    = time.Minute
	pricedVisits = 100
)

// StepThreshold adjusts a visit type's threshold after a claim at now. busy is whether messages waited for
// a worker before the claim. due are the origins that the policy picked, in random order or by their
// moments; none if the policy picked all that were due.
func (tx *Tx) StepThreshold(ctx context.Context, visitType string, now time.Time, busy bool, due []model.OriginKey) error {
	k, err := stmt.FirstOrZero(tx.q.FreshnessControl(ctx, visitType))
	if err != nil || k.Threshold == 0 || k.Stepped != nil && now.Sub(*k.Stepped).Abs() < stepEvery {
		return stmt.Failed(err, "read the threshold of visit type %q", visitType)
	}
	var values []float64
	if len(due) > 0 {
		var some []model.OriginKey
		for i := range min(len(due), pricedVisits) {
			some = append(some, due[i*len(due)/min(len(due), pricedVisits)])
		}
		origins, err := FreshnessOf(ctx, tx.q, some)
		if err != nil {
			return stmt.Failed(err, "read the values of visits")
		}
		for _, o := range origins {
			// An origin due only by the longest wait is worth less than the threshold.
			if since := now.Sub(o.LastVisit); !o.LastVisit.IsZero() && since < o.Longest {
				values = append(values, o.Weight*o.Origin(now).Value(since))
			}
		}
	}
	c := freshness.Controller{Threshold: k.Threshold, At: stmt.OrZero(k.Stepped)}.Step(now, busy, freshness.Price(values))
	return stmt.Failed(tx.q.StepFreshness(ctx, queries.StepFreshnessParams{VisitType: visitType, Threshold: c.Threshold, Stepped: &c.At}),
		"write the threshold of visit type %q", visitType)
}

// computeMoments computes the moments of the candidates on a range of pages as of now, and adds their state
// to found. It writes moments that have changed, and estimates where a lister reported an update. It waits
// for the lock of candidates.
func (s Store) computeMoments(ctx context.Context, now time.Time, first, end int64, found *freshnessWalk) error {
	return s.inTx(ctx, postgres.Plainly, func(ctx context.Context, tx *Tx) error {
		if err := tx.q.LockCandidates(ctx); err != nil {
			return err
		}
		if _, err := tx.Raw.Exec(ctx, postgres.PinPlans); err != nil {
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
		origins, err := FreshnessOf(ctx, tx.q, keys)
		if err != nil {
			return err
		}
		var changed []OriginFreshness
		var off []string
		for i := range origins {
			o := &origins[i]
			news, moved := o.Listed(), o.IsOff(moments[o.OriginKey], now)
			delete(moments, o.OriginKey)
			if moved {
				off = append(off, o.URL)
			}
			if o.LastVisit.IsZero() {
				continue
			}
			found.add(o, now)
			// Otherwise each walk would write an estimate that ForgetFreshness deletes again.
			if forgotten := now.Sub(o.LastVisit)/2 > o.Longest; moved || news && !forgotten {
				changed = append(changed, *o)
			}
		}
		for key := range moments { // their visit type has lost the policy
			off = append(off, key.URL)
		}
		if err := WriteFreshness(ctx, tx.q, changed, now); err != nil || len(off) == 0 {
			return err
		}
		return tx.q.SetMoments(ctx, queries.SetMomentsParams{FirstPage: first, EndPage: end, Urls: off})
	})
}

func (w *freshnessWalk) add(o *OriginFreshness, now time.Time) {
	staleness := o.Origin(now).Staleness(now.Sub(o.LastVisit)).Seconds()
	n := w.VisitTypes[o.VisitType]
	n.Origins, n.Staleness, n.Threshold = n.Origins+1, n.Staleness+staleness, o.Weight*o.Threshold
	if o.HasUpdates() {
		n.Measured, n.MeasuredStaleness = n.Measured+1, n.MeasuredStaleness+staleness
	}
	w.VisitTypes[o.VisitType] = n
	key := o.VisitType + " " + o.Lister.String()
	lister := w.Listers[key]
	lister.Add(o.Estimate)
	w.Listers[key] = lister
}

// listerFreshness returns the priors of listers that have enough origins with estimates.
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
