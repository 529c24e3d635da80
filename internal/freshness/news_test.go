package freshness

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/seed"
)

// quality returns a quality that is known for sure.
func quality(precision, recall float64) Quality {
	return Quality{Right: 1e9 * precision, Wrong: 1e9 * (1 - precision), Reported: 1e9 * recall, Missed: 1e9 * (1 - recall)}
}

// A world is an origin that changes at random, and whose source reports some of the changes at once, and false ones.
type world struct {
	rate, recall, precision float64
	random                  *rand.Rand
}

// cycle draws the first change and the reports after a visit, up to most days.
func (w world) cycle(most float64) (first float64, news []float64) {
	first = math.Inf(1)
	for t := w.random.ExpFloat64() / w.rate; t < most; t += w.random.ExpFloat64() / w.rate {
		first = min(first, t)
		if w.random.Float64() < w.recall {
			news = append(news, t)
		}
	}
	mistaken := w.rate * w.recall * (1 - w.precision) / w.precision
	for t := w.random.ExpFloat64() / mistaken; t < most; t += w.random.ExpFloat64() / mistaken {
		news = append(news, t)
	}
	return first, news
}

// Without news, the expected age and the chance of a change are those of simulated origins without news. Their rates are
// drawn from the estimate.
func TestSilenceEqualsSimulation(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	for _, c := range []struct {
		Estimate
		recall, listing, at float64
	}{
		{Estimate{1, 100}, 0.7, 1, 60}, {Estimate{1, 30}, 0.5, 2, 90}, {Estimate{0.8, 20}, 0.9, 1, 40},
	} {
		var age, changed, n float64
		for range 200_000 {
			w := world{gamma(random, c.Changes) / c.Days, c.recall, 0.999999, random}
			first, news := w.cycle(c.at)
			silent := true
			for _, at := range news {
				silent = silent && at > c.at-c.listing
			}
			if !silent {
				continue
			}
			n++
			if first < c.at {
				age += c.at - first
				changed++
			}
		}
		o := Origin{Estimate: c.Estimate, Listing: duration(c.listing, year), News: quality(1, c.recall)}
		gotAge, fresh := o.silent(c.at)
		if math.Abs(gotAge-age/n) > 0.06*age/n || math.Abs(1-fresh-changed/n) > 0.06*changed/n {
			t.Errorf("%+v: age %.3f and chance %.3f, simulated %.3f and %.3f", c, gotAge, 1-fresh, age/n, changed/n)
		}
	}
}

// After the first news, the expected age is that of simulated origins.
func TestAgeAfterNewsEqualsSimulation(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	const rate, recall, precision, after = 1.0 / 50, 0.7, 0.8, 5.0
	var age, n, date float64
	for range 100_000 {
		first, news := world{rate, recall, precision, random}.cycle(400)
		at := math.Inf(1)
		for _, u := range news {
			at = min(at, u)
		}
		if at < 60 || at > 80 {
			continue
		}
		n++
		date += at
		age += max(0, at+after-first)
	}
	o := Origin{Estimate: Estimate{50, 50 / rate}, Listing: time.Second, Updated: duration(date/n, year), News: quality(precision, recall)}
	got, _ := o.age(date/n + after)
	if want := age / n; math.Abs(got-want) > 0.2*want {
		t.Errorf("%.2f days, simulated %.2f", got, want)
	}
}

// The value of a visit is the integral that saved documents.
func TestSavedIsTheIntegral(t *testing.T) {
	t.Parallel()
	for _, o := range []Origin{
		{Estimate: Estimate{1, 100}, Listing: day, News: quality(0.9, 0.7)},
		{Estimate: Estimate{0.5, 3}, Listing: day, News: quality(0.6, 0.5)},
		{Estimate: Estimate{20, 200}, Listing: 3 * day, News: quality(0.95, 0.98)},
	} {
		for _, until := range []float64{0.5, 20, 100} {
			r, q := o.quality()
			A, _ := o.silent(until)
			sum, survived := 0.0, 1.0
			const steps = 20_000
			for i := range steps {
				u := (float64(i) + 0.5) / steps * until
				a, _ := o.silent(u)
				next := math.Pow(1+r/q*(float64(i)+1)/steps*until/o.Days, -o.Changes)
				sum += (survived+next)/2*(A-a)*until/steps + (survived-next)*(A-a)*(A-a)/2/q
				survived = next
			}
			if got := o.saved(until); math.Abs(got/sum-1) > 0.02 {
				t.Errorf("%+v after %g days: %g, want %g", o, until, got, sum)
			}
		}
	}
}

// Visits at the moments that the formulas give cost least: moments by a third or three times the threshold cost more
// in simulation, in staleness and in visits at that threshold.
func TestMomentsWithNewsAreTheBest(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	for _, w := range []world{{1.0 / 40, 0.7, 0.9, random}, {1.0 / 40, 0.5, 0.6, random}, {1.0 / 200, 0.9, 0.95, random}} {
		const threshold, cost = 2e5, time.Minute
		o := Origin{Estimate: Estimate{50, 50 / w.rate}, Cost: cost, Listing: time.Second, News: quality(w.precision, w.recall)}
		mean := func(by float64) float64 {
			silent, spent, time := days(o.Moment(by, 10*year)), 0.0, 0.0
			for range 20_000 {
				first, news := w.cycle(silent)
				end := silent
				if len(news) > 0 {
					at := math.Inf(1)
					for _, u := range news {
						at = min(at, u)
					}
					told := o
					told.Updated = duration(at, year)
					end = min(end, days(told.Moment(by, 10*year)))
				}
				age := max(0, end-first)
				spent, time = spent+age*age/2+threshold*days(cost), time+end
			}
			return spent / time
		}
		best := mean(threshold)
		if early, late := mean(threshold/3), mean(threshold*3); best > early || best > late {
			t.Errorf("%+v: costs %.3f, and %.3f earlier, %.3f later", w, best, early, late)
		}
	}
}

// Visits of many origins show how good the news is, though rates are learnt from the same visits.
func TestQualityIsLearnt(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	for _, want := range []struct{ recall, precision float64 }{{0.6, 0.8}, {0.95, 0.98}} {
		learnt := Quality{}
		prior := Estimate{1, 60}
		for range 3000 {
			w := world{gamma(random, prior.Changes) / prior.Days, want.recall, want.precision, random}
			h := History{Prior: prior, FirstSeen: noon, Listing: time.Hour, Longest: year, Threshold: 1, Cost: time.Minute}
			h.LastUpdate, h.LastSeen = noon.Add(-day), noon.Add(-time.Minute)
			h.Visited(noon, true)
			for h.LastVisit.Before(noon.Add(2 * year)) {
				h.News = learnt
				start := h.LastVisit
				silent := 20 + 40*random.Float64()
				first, news := w.cycle(silent)
				end := silent
				for _, at := range news {
					end = min(end, at+0.5)
				}
				for _, at := range news {
					if at < end {
						h.LastUpdate = later(h.LastUpdate, start.Add(duration(at, year)+1))
					}
				}
				h.LastSeen = start.Add(duration(end, year) - time.Minute)
				_, _, seen := h.Visited(start.Add(duration(end, year)), first < end)
				learnt = learnt.Add(seen)
			}
		}
		if math.Abs(learnt.Recall()-want.recall) > 0.06 || math.Abs(learnt.Precision()-want.precision) > 0.03 {
			t.Errorf("recall %.2f and precision %.2f, want %+v", learnt.Recall(), learnt.Precision(), want)
		}
	}
}

// Counts stay bounded and keep their ratio. Without observations, the quality is the prior's.
func TestQualityIsBounded(t *testing.T) {
	t.Parallel()
	q := Quality{}
	if q.Recall() != UsualNews.Recall() || q.Precision() != 0.9 {
		t.Errorf("%v, %v", q.Recall(), q.Precision())
	}
	for range 10 * MostObserved {
		q = q.Add(Quality{Right: 0.5, Wrong: 0.5, Reported: 0.2, Missed: 0.8})
	}
	if q.Right+q.Wrong > MostObserved+1e-6 || q.Reported+q.Missed > MostObserved+1e-6 {
		t.Errorf("%+v", q)
	}
	if math.Abs(q.Recall()-0.2) > 0.01 || math.Abs(q.Precision()-0.5) > 0.01 {
		t.Errorf("%v, %v", q.Recall(), q.Precision())
	}
	if none := (Quality{Missed: 1e9, Wrong: 1e9}); none.Recall() < minRecall || none.Precision() < minPrecision {
		t.Errorf("%v, %v", none.Recall(), none.Precision())
	}
}
