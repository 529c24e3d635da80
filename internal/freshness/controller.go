package freshness

import (
	"math"
	"slices"
	"time"
)

// A Controller adjusts the threshold to the capacity. Its state is stored in a row.
//
// If more visits are due than a claim has room for, the value of the claimed visits at that time is the price of the
// capacity. The price hardly depends on the threshold that ordered them, so the threshold follows it without
// oscillating. Otherwise the controller seeks the threshold at which all workers are busy for a third of the time.
// Further visits would be worth little, as most of them would find nothing.
type Controller struct {
	Threshold float64   // the value at which an origin is due
	At        time.Time // of the last step
}

// Bounds of thresholds, in saved staleness (days × days) per day of a worker.
const MinThreshold, MaxThreshold = 1e-3, 1e12

const (
	// startThreshold is the threshold of the zero Controller.
	startThreshold = 1e4
	// pace is the time constant with which the threshold follows a change.
	pace = 6 * day
	// mostStep bounds the logarithm of price/threshold in one step, so that a burst moves the threshold little.
	mostStep = 1
	// wantedBusy is the part of the time in which all workers should be busy unless more visits are due.
	wantedBusy = 0.35
)

// Step returns the controller after a claim at now. busy says that work waited in the queue before the claim, so that
// no worker was idle. price is 0 if all visits that were due had room. Otherwise price is the lower quartile of the
// values of the claimed visits (see Price and Origin.Value). If now is before the last step, only the time of the
// last step changes.
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
