package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxDuration bounds what a person can mean, and keeps sums from overflowing.
const maxDuration = 100 * 365 * 24 * time.Hour

var (
	errDuration = errors.New("not a duration")
	amountUnit  = regexp.MustCompile(`^(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*,?\s*`)
	clock       = regexp.MustCompile(`^(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?\s*`)
)

// unit is the length of a unit of time by its name in lower case.
func unit(name string) (time.Duration, bool) {
	switch name {
	case "ms":
		return time.Millisecond, true
	case "s", "sec", "secs", "second", "seconds":
		return time.Second, true
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute, true
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour, true
	case "d", "day", "days":
		return 24 * time.Hour, true
	case "w", "week", "weeks":
		return 7 * 24 * time.Hour, true
	}
	return 0, false
}

// ParseDuration reads durations as people and programs write them: "12 hours",
// "7 days 02:30:00" (PostgreSQL), "12h30m" (Go). A day is 24 hours; months and
// years, which have no fixed length, are not units.
func ParseDuration(text string) (time.Duration, error) {
	rest := strings.ToLower(strings.TrimSpace(text))
	if rest == "" {
		return 0, errDuration
	}
	total := 0.0 // seconds
	for rest != "" {
		if m := amountUnit.FindStringSubmatch(rest); m != nil {
			length, known := unit(m[2])
			amount, err := strconv.ParseFloat(m[1], 64)
			if !known || err != nil {
				return 0, errDuration
			}
			total += amount * length.Seconds()
			rest = rest[len(m[0]):]
			continue
		}
		m := clock.FindStringSubmatch(rest)
		if m == nil || len(m[0]) != len(rest) {
			return 0, errDuration
		}
		for i, length := range []float64{3600, 60, 1} {
			amount, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil && m[i+1] != "" {
				return 0, errDuration
			}
			total += amount * length
		}
		rest = ""
	}
	if total > maxDuration.Seconds() || math.IsNaN(total) {
		return 0, errDuration
	}
	return time.Duration(math.Round(total * float64(time.Second))), nil
}
