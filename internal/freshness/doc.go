// Package freshness decides when an origin is worth a visit, and predicts when the backlog of visits is gone. It is pure: no database, no clock.
//
// It minimizes the staleness of origins, averaged over origins and time. The staleness of an origin is the time since
// the oldest change that the archive lacks, zero if it lacks none. Changes are assumed to come at random (a Poisson
// process). Their rate differs between origins and may change.
//
//	visits, listings ──► Estimate ──► Origin.Value (grows with time) ──► Origin.Moment
//	                     of a rate                                          ▲
//	                   prices of claims, busy workers ──► Controller ──► threshold
//
// A policy claims the origins whose moment has come, the earliest first. The moment of an origin that was never
// visited is the time at which it was listed. Moments are computed after each visit and after each update that the
// lister reports. A background job checks them every six hours.
//
// Rates are in changes a day. docs/explanation/freshness.md derives the formulas.
package freshness

import "time"

// day is the unit of time of rates and thresholds.
const day = 24 * time.Hour

func days(d time.Duration) float64 { return float64(d) / float64(day) }

// duration converts days to a duration of at most most.
func duration(days float64, most time.Duration) time.Duration {
	if !(days*float64(day) < float64(most)) { // also NaN
		return most
	}
	return time.Duration(days * float64(day))
}
