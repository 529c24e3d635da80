package freshness

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// If more is due than there is room for, the threshold approaches the price from below. An hour of a price a thousand
// times as high hardly moves it.
func TestThresholdFollowsThePrice(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	c := Controller{Threshold: 10}
	for range 60 * 24 {
		at = at.Add(time.Hour)
		if c = c.Step(at, true, 5000); c.Threshold > 5000*1.02 {
			t.Fatalf("threshold %g", c.Threshold)
		}
	}
	if c.Threshold < 4000 {
		t.Errorf("threshold %g", c.Threshold)
	}
	if burst := c.Step(at.Add(time.Hour), true, 5e6); burst.Threshold > 1.1*c.Threshold {
		t.Errorf("a burst moves the threshold from %g to %g", c.Threshold, burst.Threshold)
	}
}

// Demand is proportional to the inverse cube root of the threshold. Workers settle at being busy for a third of the
// steps, also after the capacity is halved.
func TestThresholdComesToRest(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	c, capacity := Controller{Threshold: 1e5}, 1.0
	busy, steps := 0, 0
	for day := range 300 {
		if day == 150 {
			capacity = 0.5
		}
		for range 24 {
			at = at.Add(time.Hour)
			asked := 10 / math.Cbrt(c.Threshold)
			c = c.Step(at, asked > capacity, 0)
			if day > 100 && day < 150 || day > 200 {
				steps++
				if asked > capacity {
					busy++
				}
				if math.Abs(math.Log(asked/capacity)) > 0.1 {
					t.Fatalf("day %d: %g of %g asked", day, asked, capacity)
				}
			}
		}
	}
	if part := float64(busy) / float64(steps); part < 0.25 || part > 0.45 {
		t.Errorf("busy for %g of the time", part)
	}
}

// For any input, and any jump of the clock, the threshold stays within its bounds.
func TestThresholdStaysUsable(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		c := Controller{Threshold: rapid.Float64().Draw(t, "threshold")}
		at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.Int64Range(-int64(year), int64(year)).Draw(t, "jump")))
			was := c
			c = c.Step(at, rapid.Bool().Draw(t, "busy"), rapid.Float64().Draw(t, "price"))
			if !(c.Threshold >= MinThreshold && c.Threshold <= MaxThreshold) {
				t.Fatalf("%+v", c)
			}
			if back := !was.At.IsZero() && !at.After(was.At); back && c.Threshold != was.Threshold {
				t.Fatalf("a clock that went back moved %+v to %+v", was, c)
			}
		}
	})
}
