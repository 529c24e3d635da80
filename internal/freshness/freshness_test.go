package freshness

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

const year = 365 * day

func drawEstimate(t *rapid.T, name string) Estimate {
	return Estimate{
		Changes: math.Exp(rapid.Float64Range(math.Log(minChanges), math.Log(maxChanges)).Draw(t, name+" changes")),
		Days:    math.Exp(rapid.Float64Range(math.Log(minDays), math.Log(maxDays)).Draw(t, name+" days")),
	}
}

// drawGap draws a time from a second to ten years.
func drawGap(t *rapid.T, name string) time.Duration {
	return time.Duration(math.Exp(rapid.Float64Range(math.Log(1e9), math.Log(float64(10*year))).Draw(t, name)))
}

func drawOrigin(t *rapid.T) Origin {
	o := Origin{Estimate: drawEstimate(t, "estimate"), Cost: drawGap(t, "cost") / 1000, Useless: drawGap(t, "useless") / 1000}
	if rapid.Bool().Draw(t, "reports") {
		o.Listing = drawGap(t, "listing") / 100
		o.News = quality(rapid.Float64Range(0, 1).Draw(t, "precision"), rapid.Float64Range(0, 1).Draw(t, "recall"))
		if rapid.Bool().Draw(t, "updated") {
			o.Updated = drawGap(t, "update")
		}
	}
	return o
}

// slack bounds the rounding errors of floating-point arithmetic.
const slack = 1e-6

// slackOf returns the bound of the errors of an origin's value: integrals are computed at some points only.
func slackOf(o Origin) float64 {
	if o.Listing > 0 {
		return 1e-2
	}
	return slack
}

// The value of a visit grows with the time since the last one and with the rate of change, and falls with the cost.
// The chance of a change grows with time and rate.
func TestValueGrows(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		o, since := drawOrigin(t), drawGap(t, "since")
		value := o.Value(since)
		if !(value >= 0) || math.IsInf(value, 0) {
			t.Fatalf("value %g", value)
		}
		// At its date, news changes what the visit is expected to find, and so its price.
		told := o.stale() && since <= o.Updated && since+since/1000 > o.Updated
		if later := o.Value(since + since/1000); !told && later < value*(1-slackOf(o)) {
			t.Errorf("falls with time, from %g to %g", value, later)
		}
		dearer := o
		dearer.Cost *= 2
		if v := dearer.Value(since); v > value*(1+slackOf(o)) {
			t.Errorf("grows with the cost, from %g to %g", value, v)
		}
		if o.Listing > 0 { // at a higher rate, news is more likely to come first
			return
		}
		busier := o
		busier.Changes *= 1.1
		if v := busier.Value(since); v < value*(1-slackOf(o)) {
			t.Errorf("falls with the rate, from %g to %g", value, v)
		}
		if o.Chance(since) > busier.Chance(since) || o.Chance(since) > o.Chance(2*since) {
			t.Error("the chance falls with the rate or the time")
		}
	})
}

// The formulas equal numeric integrals: the staleness is the sum of the chances; the value of a visit is the sum of
// times × chances.
func TestValueIsTheStalenessSaved(t *testing.T) {
	t.Parallel()
	for _, o := range []Origin{
		{Estimate: Estimate{0.5, 10}}, {Estimate: Estimate{1, 1}}, {Estimate: Estimate{2, 100}},
		{Estimate: Estimate{30, 3000}}, {Estimate: Estimate{5, 0.5}},
	} {
		o.Cost = day
		const steps = 4000
		step := 40 * day / steps
		alone := Origin{Estimate: o.Estimate}
		saved, staleness := 0.0, 0.0
		for i := range steps {
			at := time.Duration(i)*step + step/2
			staleness += alone.Chance(at) * days(step)
			saved += days(at) * alone.Chance(at) * days(step)
		}
		if got := o.Value(40 * day); math.Abs(got-saved) > 1e-2*saved {
			t.Errorf("%+v: value %g, want %g", o, got, saved)
		}
		if got := days(o.Staleness(40 * day)); math.Abs(got-staleness) > 1e-2*staleness {
			t.Errorf("%+v: staleness %g, want %g", o, got, staleness)
		}
	}
}

// At the moment, the value reaches the threshold, unless the longest wait comes first.
func TestMomentIsWhereTheValueReachesTheThreshold(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		o, longest := drawOrigin(t), drawGap(t, "longest")
		threshold := math.Exp(rapid.Float64Range(-20, 40).Draw(t, "threshold"))
		at := o.Moment(threshold, longest)
		if at < 0 || at > longest {
			t.Fatalf("moment %s, longest %s", at, longest)
		}
		if later := o.Moment(threshold*2, longest); float64(later) < float64(at)*(1-slackOf(o)/100) {
			t.Errorf("with a higher threshold %s, before %s", later, at)
		}
		near := at/1000 + time.Microsecond
		if o.stale() && at-near <= o.Updated { // no visit is due to news before its date
			return
		}
		if v := o.Value(at - near); v > threshold*(1+slackOf(o)) {
			t.Errorf("before %s the value is %g, above %g", at, v, threshold)
		}
		if v := o.Value(at + near); at+near < longest && v < threshold*(1-slackOf(o)) {
			t.Errorf("after %s the value is %g, below %g", at, v, threshold)
		}
	})
}

// Thresholds returns exactly the thresholds for which the right moment is within a tenth of the given one, and none
// past the longest wait.
func TestMomentsWithinATenthAreRight(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		o, longest := drawOrigin(t), drawGap(t, "longest")
		o.Updated = 0
		moment := drawGap(t, "moment")
		threshold := math.Exp(rapid.Float64Range(-20, 40).Draw(t, "threshold"))
		low, high := o.Thresholds(moment, longest)
		left := threshold >= low && threshold <= high
		ratio := float64(o.Moment(threshold, longest)) / float64(moment)
		if moment > longest {
			ratio = 0
		}
		if left != (ratio > 1/1.1 && ratio < 1.1) && !(math.Abs(math.Abs(math.Log(ratio))-math.Log(1.1)) < max(1e-3, slackOf(o))) {
			t.Errorf("left: %v, where the right moment is %g times as late", left, ratio)
		}
	})
}

// With a reported update the chance is the precision of the news, and the visit is worth more than without it.
func TestReportedUpdateIsCertain(t *testing.T) {
	t.Parallel()
	quiet := Origin{Estimate: Estimate{1, 100}, Cost: time.Minute, Listing: day, News: quality(1, 1)}
	updated := quiet
	updated.Updated = 3 * day
	if c := updated.Chance(3 * day); c < maxPrecision {
		t.Errorf("chance %g", c)
	}
	if a, b := updated.Moment(1e5, year), quiet.Moment(1e5, year); a > 4*day || b < 60*day {
		t.Errorf("with an update after %s, without after %s", a, b)
	}
}

// After any observations in any order an estimate is usable. Observations with a gap of zero or less change nothing.
func TestObservationsKeepEstimatesUsable(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		prior, e := drawEstimate(t, "prior"), Estimate{}
		for range rapid.IntRange(0, 200).Draw(t, "visits") {
			gap := drawGap(t, "gap")
			if rapid.IntRange(0, 9).Draw(t, "jump") == 0 {
				gap = -gap
			}
			was, outcome := e, Outcome(rapid.IntRange(0, 2).Draw(t, "outcome"))
			e = e.Observe(prior, gap, outcome)
			if e.bounded() != e || !e.known() {
				t.Fatalf("%+v", e)
			}
			if gap <= 0 && e != was.Or(prior) {
				t.Fatalf("a gap of %s changed %+v to %+v", gap, was, e)
			}
		}
		if c := e.Certainty(); c < 0 || c >= 1 {
			t.Errorf("certainty %g", c)
		}
	})
}

// Bounds change the certainty of an estimate but keep its rate, unless no estimate has that rate.
func TestBoundsKeepTheRate(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		rate := math.Exp(rapid.Float64Range(math.Log(minChanges/maxDays), math.Log(maxRate)).Draw(t, "rate"))
		changes := math.Exp(rapid.Float64Range(-9, 9).Draw(t, "changes"))
		if got := (Estimate{changes, changes / rate}).Rate(); math.Abs(got/rate-1) > 1e-9 {
			t.Errorf("%g changes at the rate %g: %g", changes, rate, got)
		}
	})
}

// About as many visits find a change as their predicted chances sum to. The prior that is learnt from the estimates is wider than
// the population, and its median lower, as unchanged gaps lower the gamma distribution more than the lognormal one.
func TestEstimatesAreCalibrated(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	const origins, visits = 1500, 12
	const median, deviation = 1.0 / 90, 1.6
	prior := ofLogs(math.Log(median), deviation*deviation)
	var predicted, found, made [5]float64
	var population Population
	for range origins {
		rate := median * math.Exp(deviation*random.NormFloat64())
		e := Estimate{}
		for range visits {
			gap := duration(math.Exp(random.NormFloat64())*10, year)
			chance := e.Or(prior).Chance(gap)
			outcome := Unchanged
			if random.Float64() < -math.Expm1(-rate*days(gap)) {
				outcome = Changed
			}
			bin := min(int(chance*5), 4)
			predicted[bin] += chance
			made[bin]++
			if outcome == Changed {
				found[bin]++
			}
			e = e.Observe(prior, gap, outcome)
		}
		population.Add(e)
	}
	for i, n := range made {
		if off := math.Abs(predicted[i]-found[i]) / n; n < 200 || off > 0.08 {
			t.Errorf("of %g visits predicted to find %g changes, %g did", n, predicted[i], found[i])
		}
	}
	mean, variance := population.Prior().LogRate()
	if math.Abs(mean-math.Log(median)) > 0.8 || math.Sqrt(variance) < deviation || math.Sqrt(variance) > 1.6*deviation {
		t.Errorf("learnt a median of %.4f and a deviation of %.2f, want %.4f and %.2f", math.Exp(mean), math.Sqrt(variance), median, deviation)
	}
}

// gamma draws from the gamma distribution of a shape of at most 1 (Ahrens and Dieter's method).
func gamma(random *rand.Rand, shape float64) float64 {
	for {
		p := random.Float64() * (1 + shape/math.E)
		x := math.Pow(p, 1/shape)
		keep := math.Exp(-x)
		if p > 1 {
			x = -math.Log((1 + shape/math.E - p) / shape)
			keep = math.Pow(x, shape-1)
		}
		if random.Float64() < keep {
			return x
		}
	}
}

// An origin that changed before each visit is soon estimated at a high rate, though few origins change so often.
func TestHighRatesAreFoundSoon(t *testing.T) {
	t.Parallel()
	e, visits := Estimate{}, 0
	for e.Or(General).Rate() < 1 && visits < 100 {
		gap := duration(1/e.Or(General).Rate(), year)
		e = e.Observe(General, gap, Changed)
		visits++
	}
	if visits > 15 {
		t.Errorf("a rate of a change a day took %d visits", visits)
	}
}

// The rate of a project that was silent for years rises soon after it wakes up. The rate of an abandoned project
// falls.
func TestRateFollowsWakingUp(t *testing.T) {
	t.Parallel()
	prior := Estimate{Changes: 0.5, Days: 25}
	e := Estimate{}
	for range 30 {
		e = e.Observe(prior, 60*day, Unchanged)
	}
	silent := e.Rate()
	for range 3 {
		e = e.Observe(prior, 10*day, Changed)
	}
	awake := e.Rate()
	for range 10 {
		e = e.Observe(prior, 30*day, Unchanged)
	}
	if silent > 1.0/500 || awake < 1.0/50 || e.Rate() > awake/5 {
		t.Errorf("rate %g when silent, %g when awake, %g when abandoned", silent, awake, e.Rate())
	}
}

// Ten thousand visits make an estimate no more certain than many do. It still notices that an origin wakes up or is
// abandoned.
func TestEstimateAfterTenThousandVisits(t *testing.T) {
	t.Parallel()
	after := func(usual, later Outcome, gap time.Duration) (before, after float64) {
		e := Estimate{}
		for range 10_000 {
			e = e.Observe(General, day, usual)
		}
		before = e.Rate()
		for range 10 {
			e = e.Observe(General, gap, later)
		}
		return before, e.Rate()
	}
	if busy, silent := after(Changed, Unchanged, 30*day); !(busy > 3 && busy <= maxRate && silent < 1.0/100) {
		t.Errorf("rate %g, and %g once it is abandoned", busy, silent)
	}
	if silent, busy := after(Unchanged, Changed, day); !(silent < 1.0/300 && busy > 1.0/20) {
		t.Errorf("rate %g, and %g once it wakes up", silent, busy)
	}
}

// An update reported in each listing gives a high rate, however many updates came between two listings. One update in
// a year gives a rate of one a year.
func TestReportedUpdates(t *testing.T) {
	t.Parallel()
	often, seldom := Estimate{}, Estimate{}
	for range 50 {
		often = often.WithReports(General, day, time.Hour, day, 1)
		seldom = seldom.WithReports(General, year, 12*time.Hour, day, 1)
	}
	if r := often.Rate(); r < 1.5 || r > maxRate {
		t.Errorf("with updates an hour before each listing: %g a day", r)
	}
	if r := seldom.Rate() * days(year); r < 0.9 || r > 1.5 {
		t.Errorf("with an update a year: %g a year", r)
	}
}

// Facts about an origin without a visit lower its prior rate.
func TestPriors(t *testing.T) {
	t.Parallel()
	usual := Facts{}.Prior()
	for name, f := range map[string]Facts{
		"fork": {Fork: true}, "old": {Age: 5 * year}, "silent": {SinceUpdate: year},
		"of a quiet lister": {Lister: Estimate{1, 1000}},
	} {
		if got := f.Prior(); got.Rate() >= usual.Rate() {
			t.Errorf("%s: rate %g, usually %g", name, got.Rate(), usual.Rate())
		}
	}
	if p := (Population{Origins: 3}).Prior(); p != (Estimate{}) {
		t.Errorf("a population of three has the prior %+v", p)
	}
}
