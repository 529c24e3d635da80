package pytext

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is the maximum of ParseDuration. Sums of a few such durations don't overflow.
const MaxDuration = 100 * 365 * day

const longest = 290 * 365 * day // about the largest time.Duration

var (
	errDuration = errors.New("not a duration")
	amountUnit  = regexp.MustCompile(`^(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*,?\s*`)
	clock       = regexp.MustCompile(`^(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?\s*`)
)

// units has the units of time by their names in lower case.
var units = func() map[string]time.Duration {
	all := map[string]time.Duration{}
	for names, length := range map[string]time.Duration{
		"ms": time.Millisecond, "s sec secs second seconds": time.Second, "m min mins minute minutes": time.Minute,
		"h hr hrs hour hours": time.Hour, "d day days": day, "w week weeks": 7 * day,
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = length
		}
	}
	return all
}()

// ParseDuration reads durations such as "12 hours", "7 days 02:30:00" (PostgreSQL) and
// "12h30m" (Go). A day is 24 hours. Months and years have no fixed length and are not units
// (see postgres.DB.ReadInterval).
func ParseDuration(text string) (time.Duration, error) { return parseDuration(text, MaxDuration) }

func parseDuration(text string, longest time.Duration) (time.Duration, error) {
	rest := strings.ToLower(strings.TrimSpace(text))
	if rest == "" {
		return 0, errDuration
	}
	total := 0.0 // seconds
	for rest != "" {
		if m := amountUnit.FindStringSubmatch(rest); m != nil {
			length, known := units[m[2]]
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
	if total > longest.Seconds() || math.IsNaN(total) {
		return 0, errDuration
	}
	return time.Duration(math.Round(total * float64(time.Second))), nil
}

// intervalForm is the form of the Python scheduler's parse_time_interval: days, hours, minutes and seconds, in this
// order, all optional.
var intervalForm = regexp.MustCompile(`^` +
	`(?:(\d+\.?|\d*\.\d+) *(?:day|days|d))? ?` +
	`(?:(\d+\.?|\d*\.\d+) *(?:h|hr|hrs|hour|hours))? ?` +
	`(?:(\d+\.?|\d*\.\d+) *(?:m|min|mins|minute|minutes))? ?` +
	`(?:(\d+\.?|\d*\.\d+) *(?:s|sec|second|seconds))?$`)

// ParseInterval reads a duration of the Python scheduler's command line, such as "1 day 12 hours", to microseconds.
func ParseInterval(text string) (time.Duration, error) {
	if !intervalForm.MatchString(text) || strings.TrimSpace(text) == "" {
		return 0, Sentencef("'%s' is not an interval such as '12 hours' or '1 day 30 minutes'.", text)
	}
	d, err := parseDuration(text, longest)
	if err != nil {
		return 0, Sentencef("'%s' is longer than 290 years.", text)
	}
	return d.Round(time.Microsecond), nil
}
