package freshness

import (
	"math"
	"time"
)

// A Controller keeps the threshold at what the capacity affords: so that what is due has waited
// for a short time. It is a proportional and integral control of the threshold's logarithm, and
// can be kept as a row. The zero Controller starts at the lowest threshold.
type Controller struct {
	Threshold float64       // the value that a visit must reach; days × days for each day of a worker
	Lag       time.Duration // at the last step
	At        time.Time     // of the last step
}

// Limits of thresholds. At the lowest one a visit of a second's cost is made for a minute's
// staleness saved; at the highest one only the longest wait decides.
const MinThreshold, MaxThreshold = 1e-2, 1e12

const (
	// wantedLag is how long what is due has waited if the threshold is right: some work always
	// waits, so that workers don't.
	wantedLag = 6 * time.Hour
	// pace is the time in which the threshold follows a change of the capacity.
	pace = 7 * day
	// mostStep bounds a step of the threshold's logarithm: a burst doesn't throw it off.
	mostStep = 0.5
)

// Step returns the controller after a look at now: lag is for how long the visit that is due next
// has been due; less than 0 if it is not due yet. A step back in time only sets the clock.
func (c Controller) Step(now time.Time, lag time.Duration) Controller {
	if !(c.Threshold >= MinThreshold) || math.IsInf(c.Threshold, 0) {
		c.Threshold = MinThreshold
	}
	lag = min(max(lag, -pace), pace)
	if elapsed := now.Sub(c.At); !c.At.IsZero() && elapsed > 0 {
		passed := min(days(elapsed)/days(pace), 1)
		change := proportional*(days(lag)-days(c.Lag))/days(pace) + integral*(days(lag)-days(wantedLag))/days(pace)*passed
		c.Threshold *= math.Exp(min(max(change, -mostStep), mostStep))
	}
	c.Threshold = min(max(c.Threshold, MinThreshold), MaxThreshold)
	c.Lag, c.At = lag, now
	return c
}

// The gains of the control: by how much the threshold's logarithm changes with a lag of the pace,
// and while such a lag lasts for the pace. Moments grow with about the threshold's third root, so
// that smaller ones follow too slowly, and larger ones swing.
const proportional, integral = 2, 4
