package freshness

import (
	"math"
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
	o := Origin{Estimate: drawEstimate(t, "estimate"), Cost: drawGap(t, "cost") / 1000, Told: rapid.Bool().Draw(t, "told")}
	if rapid.Bool().Draw(t, "updated") {
		o.Updated = drawGap(t, "update")
	}
	return o
}

// slack is for what floating-point arithmetic loses.
const slack = 1e-6

// A visit is worth the more the longer ago the last one was, the more often the origin changes
// and the less it costs; and the chance of a change grows likewise.
func TestValueGrows(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		o, since := drawOrigin(t), drawGap(t, "since")
		value := o.Value(since)
		if !(value >= 0) || math.IsInf(value, 0) {
			t.Fatalf("value %g", value)
		}
		if later := o.Value(since + since/1000); later < value*(1-slack) {
			t.Errorf("falls with time, from %g to %g", value, later)
		}
		dearer := o
		dearer.Cost *= 2
		if v := dearer.Value(since); v > value*(1+slack) {
			t.Errorf("grows with the cost, from %g to %g", value, v)
		}
		if o.stale() { // the more it changes, the sooner it is stale again
			return
		}
		busier := o
		busier.Changes *= 1.1
		if v := busier.Value(since); v < value*(1-slack) {
			t.Errorf("falls with the rate, from %g to %g", value, v)
		}
		if o.Chance(since) > busier.Chance(since) || o.Chance(since) > o.Chance(2*since) {
			t.Error("the chance falls with the rate or the time")
		}
	})
}

// The value is the integral of the time times the chance's growth: what the formula says is what
// adding up says.
func TestValueIsTheStalenessSaved(t *testing.T) {
	t.Parallel()
	for _, o := range []Origin{
		{Estimate: Estimate{0.3, 10}}, {Estimate: Estimate{1, 1}}, {Estimate: Estimate{2, 100}},
		{Estimate: Estimate{30, 3000}}, {Estimate: Estimate{5, 0.1}}, {Estimate: Estimate{1, 1}, Told: true},
	} {
		o.Cost = day
		sum, staleness, steps := 0.0, 0.0, 20_000
		step := 40 * day / time.Duration(steps)
		for i := range steps {
			at := time.Duration(i)*step + step/2
			sum += days(at) * o.Chance(at) * days(step)
			staleness += o.Chance(at) * days(step)
		}
		if got := o.Value(40 * day); math.Abs(got-sum) > 1e-4*sum {
			t.Errorf("%+v: value %g, want %g", o, got, sum)
		}
		if got := days(o.Staleness(40 * day)); math.Abs(got-staleness) > 1e-4*staleness {
			t.Errorf("%+v: staleness %g, want %g", o, got, staleness)
		}
	}
}

// At the moment the value reaches the threshold, unless the longest wait comes first.
func TestMomentIsWhereTheValueReachesTheThreshold(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		o, longest := drawOrigin(t), drawGap(t, "longest")
		threshold := math.Exp(rapid.Float64Range(-20, 40).Draw(t, "threshold"))
		at := o.Moment(threshold, longest)
		if at < 0 || at > longest {
			t.Fatalf("moment %s, longest %s", at, longest)
		}
		if later := o.Moment(threshold*2, longest); later < at {
			t.Errorf("with a higher threshold %s, before %s", later, at)
		}
		// A moment is in whole nanoseconds.
		if v := o.Value(at - at/1000 - 2); v > threshold*(1+slack) {
			t.Errorf("before %s the value is %g, above %g", at, v, threshold)
		}
		if v := o.Value(at + at/1000 + 2); at < longest && v < threshold*(1-slack) {
			t.Errorf("after %s the value is %g, below %g", at, v, threshold)
		}
	})
}

// Where the lister tells of an update the chance is certain and the visit worth more than without it.
func TestAnUpdateThatIsToldIsCertain(t *testing.T) {
	t.Parallel()
	quiet := Origin{Estimate: Estimate{1, 100}, Cost: time.Minute, Told: true}
	updated := quiet
	updated.Updated = 3 * day
	if c := updated.Chance(3 * day); c != 1 {
		t.Errorf("chance %g", c)
	}
	if a, b := updated.Moment(1e5, year), quiet.Moment(1e5, year); a > 4*day || b < 60*day {
		t.Errorf("with an update after %s, without after %s", a, b)
	}
}

// Whatever is observed, in whatever order, an estimate stays one that can be computed with, and
// an outcome moves it to its side.
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
			if gap < 0 && e != was.Or(prior) {
				t.Fatalf("a gap of %s changed %+v to %+v", gap, was, e)
			}
		}
		if c := e.Certainty(); c < 0 || c >= 1 {
			t.Errorf("certainty %g", c)
		}
	})
}
