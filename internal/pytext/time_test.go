package pytext

import (
	"errors"
	"testing"
	"time"
)

// A file's date is in ISO 8601 with all its digits; another text is an error.
func TestParseISO8601(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2030": "2030-01-01T00:00:00Z", "2030-02": "2030-02-01T00:00:00Z", "20300203": "2030-02-03T00:00:00Z", "203002": "",
		"2030-01-02 03:04": "2030-01-02T03:04:00Z", "2030-01-02T03:04:05Z": "2030-01-02T03:04:05Z", "2030-01-02T03:04:05.5": "2030-01-02T03:04:05.5Z",
		"2030-01-02T03:04:05,123456789": "2030-01-02T03:04:05.123456Z", "2030-01-02T03:04:05-08:30": "2030-01-02T11:34:05Z", "20300102T0304+01": "2030-01-02T02:04:00Z",
		"2030-02-30": "", "2030-13-01": "", "2030-01-02T24:00": "", "2030-01-02T03:04:05+24:00": "", "0000-01-01": "", "2030-01-02T03:04:05 x": "", "tomorrow": "",
	} {
		got := ""
		at, err := ParseISO8601(text)
		if err == nil {
			got = at.UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
}

// An offset with seconds, thousands and errors have Python's texts.
func TestTextsOfPython(t *testing.T) {
	t.Parallel()
	long := time.Date(1890, 1, 2, 3, 4, 5, 0, time.FixedZone("", 9*60+21))
	twice := errors.New("away\n  first host \nsecond host\naway\n\n")
	for want, got := range map[string]string{
		"1890-01-02T03:04:05+00:09:21": ISOFormat(long), "away first host second host": OneLine(twice).Error(),
		"0": Thousands(0), "-100": Thousands(-100), "-1,000": Thousands(-1000), "999": Thousands(999), "1,234,567": Thousands(1234567),
		"a\x1eb": RStrip("a\x1eb \x1c\x1f\u00a0\n"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if text, err := PlainJSON(map[string]string{"url": "https://a/?b&c=<d>"}); err != nil || string(text) != `{"url":"https://a/?b&c=<d>"}` {
		t.Errorf("%s, %v", text, err)
	}
}
