package freshness

import (
	"math"
	"slices"
	"time"
)

// A Controller keeps the threshold at what the capacity affords. It is a row's worth of state.
//
// While more is due than there is room for, what the claimed visits are worth by then is the price
// that the capacity makes. It hardly depends on the threshold that ordered them, so that the
// threshold follows it without swinging. Else the threshold is where all workers are busy for a third
// of the time: more visits would be made for little, and most of them would find nothing.
type Controller struct {
	Threshold float64   // the value at which an origin is due
	At        time.Time // of the last step
}

// Bounds of thresholds, in staleness saved (days × days) for each day of a worker.
const MinThreshold, MaxThreshold = 1e-3, 1e12

const (
	// startThreshold is that of the zero Controller.
	startThreshold = 1e4
	// pace is the time in which the threshold follows a change.
	pace = 6 * day
	// mostStep bounds the logarithm of price and threshold's ratio: a burst doesn't throw it off.
	mostStep = 1
	// wantedBusy is for which part of the time all workers are busy unless more is due.
	wantedBusy = 0.35
)

// Step returns the controller after a claim at now. busy is whether work waited in the queue
// before the claim, so that no worker was idle. If more was due than there was room for, price is
// what a quarter of the claimed visits were worth at most by then (Origin.Value), else 0. A step back in
// time only sets the clock.
func (c Controller) Step(now time.Time, busy bool, price float64) Controller {
	if !(c.Threshold > 0) || math.IsInf(c.Threshold, 0) {
		c.Threshold = startThreshold
	}
	if elapsed := now.Sub(c.At); !c.At.IsZero() && elapsed > 0 {
		step := -wantedBusy
		if busy {
			step++
		}
		if price > c.Threshold {
			step = min(math.Log(price/c.Threshold), mostStep)
		}
		c.Threshold *= math.Exp(step * -math.Expm1(-days(elapsed)/days(pace)))
	}
	c.Threshold = min(max(c.Threshold, MinThreshold), MaxThreshold)
	c.At = now
	return c
}

// Price returns the price for Step from the values of the claimed visits, which it sorts; 0 for none.
func Price(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/4]
}
