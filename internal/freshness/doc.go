// Package freshness decides when an origin is worth a visit. It is pure: no database, no clock.
//
// What is minimized is staleness: for how long the archive has lacked the oldest change that it
// lacks, zero if it lacks none, as a mean over origins and time. Changes are taken to come at
// random (a Poisson process), at a rate that differs between origins and may change.
//
//	visits, listings ──► Estimate ──► Origin.Value (grows with time) ──► Origin.Moment
//	                     of a rate                                          ▲
//	                   prices of claims, busy workers ──► Controller ──► threshold
//
// A policy claims the origins whose moment has come, the earliest first, and those never visited as
// of the time they were listed. It computes a moment after each visit and each update that the
// lister tells of, and looks at all of them again in the background, each six hours.
//
// Rates are in changes a day. docs/freshness.md derives the formulas.
package freshness

import "time"

// day is the unit of time of rates, exposures and thresholds.
const day = 24 * time.Hour

func days(d time.Duration) float64 { return float64(d) / float64(day) }

// duration returns some days as a duration, at most most.
func duration(days float64, most time.Duration) time.Duration {
	if !(days*float64(day) < float64(most)) { // also NaN
		return most
	}
	return time.Duration(days * float64(day))
}
