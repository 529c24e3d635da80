package freshsim

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator"
)

// recorded is a history from a file.
type recorded struct {
	times []float64
	until float64 // the end of the recorded time
}

func (r recorded) after(t float64) float64 {
	i, _ := slices.BinarySearchFunc(r.times, t, func(change, t float64) int {
		if change <= t {
			return -1
		}
		return 1
	})
	if i == len(r.times) {
		return math.Inf(1)
	}
	return r.times[i]
}

// rate returns the mean rate since the origin appeared. The appearance counts as a change, so that no rate is zero.
func (r recorded) rate(float64) float64 {
	return float64(len(r.times)) / max(day, r.until-r.times[0])
}

// longestSpan is the longest simulated time, in days: about ten years.
const longestSpan = 3660

// ReadChanges reads a CSV file with a header and the columns origin and time, with rows in any order. A time is a
// date with a time of day, in UTC unless it has another zone. An origin appears with its first change. Errors name
// the line. ReadChanges returns a model of the changes and the options of a run over the recorded time. The first
// quarter of that time, at most 90 days, is before the start, and the warm-up is as long.
func ReadChanges(r io.Reader) (Model, Options, error) {
	var first, last time.Time
	numbers := map[string]int{}
	var changes [][]time.Time
	err := simulator.ReadCSV(r, []string{"origin", "time"}, func(field func(column string) string) error {
		at, err := pytext.ParseISO8601(strings.TrimSpace(field("time")))
		if err != nil {
			return errors.New("time must be a date such as 2026-01-31T12:00:00Z")
		}
		origin := field("origin")
		if origin == "" {
			return errors.New("origin is empty")
		}
		i, ok := numbers[origin]
		if !ok {
			i = len(changes)
			numbers[origin] = i
			changes = append(changes, nil)
		}
		changes[i] = append(changes[i], at)
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
		return nil
	})
	if err != nil {
		return Model{}, Options{}, err
	}
	span := last.Sub(first).Hours() / 24
	if span < 4 {
		return Model{}, Options{}, errors.New("the file's changes are within four days, too few to compare policies")
	}
	if span > longestSpan {
		return Model{}, Options{}, fmt.Errorf("the file's changes span more than ten years, from %s to %s: remove changes with wrong dates",
			first.UTC().Format(time.DateOnly), last.UTC().Format(time.DateOnly))
	}
	before := min(settled, span/4)
	histories := make([]recorded, len(changes))
	for i, times := range changes {
		for _, at := range times {
			histories[i].times = append(histories[i].times, at.Sub(first).Hours()/24-before)
		}
		histories[i].until = span - before
		slices.Sort(histories[i].times)
		histories[i].times = slices.Compact(histories[i].times)
	}
	m := Model{Name: "recorded", draw: func(i int, _ *rand.Rand) history { return histories[i] }}
	return m, Options{Origins: len(changes), WarmUp: before, Runtime: span - 2*before}, nil
}
