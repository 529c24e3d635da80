package model

import (
	"math"
	"time"
)

// Duration converts seconds, to the nearest nanosecond.
func Duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// UnixSeconds converts a time to seconds since 1970 UTC, as in Celery's events, to the microsecond.
func UnixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// UnixTime converts seconds since 1970 UTC, to the microsecond.
func UnixTime(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)).UTC() }
