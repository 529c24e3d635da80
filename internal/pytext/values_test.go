package pytext

import (
	"testing"
	"time"
)

func TestParseDate(t *testing.T) {
	for text, want := range map[string]string{
		"2030-01-02":                    "2030-01-02T00:00:00Z",
		"2030-1-2":                      "2030-01-02T00:00:00Z",
		"20300102":                      "2030-01-02T00:00:00Z",
		"2030/01/02 03:04":              "2030-01-02T03:04:00Z",
		"2030-01-02T03:04:05":           "2030-01-02T03:04:05Z",
		"2030-01-02 03:04:05.678":       "2030-01-02T03:04:05.678Z",
		"20300102T030405Z":              "2030-01-02T03:04:05Z",
		"2030-01-02T03:04:05Z":          "2030-01-02T03:04:05Z",
		"2030-01-02T03:04:05+05:30":     "2030-01-01T21:34:05Z",
		"2030-01-02 03:04:05 -0800":     "2030-01-02T11:04:05Z",
		"2030-01-02T03-08":              "2030-01-02T11:00:00Z",
		"Wed, 02 Jan 2030 03:04:05 GMT": "2030-01-02T03:04:05Z",
		"wednesday 2 january 2030, 3pm": "2030-01-02T15:00:00Z",
		"January 2, 2030 3:04pm":        "2030-01-02T15:04:00Z",
		"2030-02-30":                    "",
		"2030-01-02T25:00":              "",
		"2030-01-02T03:04:05+99:00":     "",
		"someday":                       "",
		"2030":                          "",
		"02/03/2030":                    "", // day and month are ambiguous
		"in two days":                   "",
		"99999999999999999999 days ago": "",
		"999999999 weeks ago":           "",
	} {
		got, err := ParseDate(text, time.Now())
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: got %v, want an error", text, got)
		case want != "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && got.Format(time.RFC3339Nano) != want:
			t.Errorf("%q: got %s, want %s", text, got.Format(time.RFC3339Nano), want)
		}
	}
}

func TestRelativeTime(t *testing.T) {
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"now": 0, "tomorrow": 24 * time.Hour, "yesterday": -24 * time.Hour,
		"in 2 days": 48 * time.Hour, "1 hour ago": -time.Hour, "in 90 minutes": 90 * time.Minute, "3 weeks ago": -21 * 24 * time.Hour,
	} {
		if got, ok := relativeTime(text, now); !ok || got.Sub(now) != want {
			t.Errorf("%q: got %v, want %s", text, got, want)
		}
	}
}

func FuzzParseDate(f *testing.F) {
	f.Add("Wed, 02 Jan 2030 03:04:05 +0100")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseDate(text, time.Now()); err != nil && !got.IsZero() {
			t.Errorf("%q: %s, %s", text, got, err)
		}
	})
}

// Intervals are those of the Python scheduler's command line.
func TestParseInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"12 hours": 12 * time.Hour, "7 days": 7 * day, "1 day 2h3min 4.5 s": day + 2*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		".5d": 12 * time.Hour, "1.h": time.Hour, "0 s": 0, "100000 days": 100000 * day,
		"": -1, " ": -1, "1 hour 1 day": -1, "1 week": -1, "-1 day": -1, "1 day,": -1, "999999999 days": -1,
	} {
		got, err := ParseInterval(text)
		if (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}

// Any text of a date column, or of an option for an interval, is a value or an error.
func FuzzDatesAndIntervals(f *testing.F) {
	for _, text := range []string{"2030-01-31T12:30:00.5+01:00", "20300131T1230-08", "2030", "1 day 2 h", ".5 s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := ParseISO8601(text); err == nil && (at.Year() < 1 || at.Year() > 9999) {
			t.Errorf("%q: %s", text, at)
		}
		if d, err := ParseInterval(text); err == nil && d < 0 {
			t.Errorf("%q: %s", text, d)
		}
	})
}
