package sql

import (
	"math"
	"time"
)

// The helpers here turn Go's zero values, where they mean "none", into NULL, and
// back.

func nullable[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func nullableTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// durationOrZero reads a number of seconds.
func durationOrZero(seconds *float64) time.Duration {
	if seconds == nil {
		return 0
	}
	return time.Duration(math.Round(*seconds * float64(time.Second)))
}

func orNull[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// textsOf turns a list of enum values into one of texts, which pgx can send
// without knowing the enum.
func textsOf[T ~string](values []T) []string {
	if len(values) == 0 {
		return nil
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return texts
}
