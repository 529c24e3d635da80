package pytext

import (
	"fmt"
	"strings"
	"time"
)

const day = 24 * time.Hour

// InDays splits a duration into days and a non-negative rest, as a timedelta does.
func InDays(d time.Duration) (days, rest time.Duration) {
	days, rest = d/day, d%day
	if rest < 0 {
		return days - 1, rest + day
	}
	return days, rest
}

// Timedelta equals str of a datetime.timedelta, such as "1 day, 2:03:04.500000", in whole microseconds.
func Timedelta(d time.Duration) string {
	days, rest := InDays(d.Truncate(time.Microsecond))
	text := fmt.Sprintf("%d:%02d:%02d", rest/time.Hour, rest/time.Minute%60, rest/time.Second%60)
	if micros := rest % time.Second / time.Microsecond; micros > 0 {
		text += fmt.Sprintf(".%06d", micros)
	}
	switch days {
	case 0:
		return text
	case 1, -1:
		return fmt.Sprintf("%d day, %s", days, text)
	}
	return fmt.Sprintf("%d days, %s", days, text)
}

// ISOFormat equals isoformat of an aware datetime, in t's own zone.
func ISOFormat(t time.Time) string {
	text := t.Format("2006-01-02T15:04:05")
	if micros := t.Nanosecond() / 1000; micros > 0 {
		text += fmt.Sprintf(".%06d", micros)
	}
	if _, offset := t.Zone(); offset%60 != 0 {
		return text + t.Format("-07:00:00")
	}
	return text + t.Format("-07:00")
}

// NaturalDate equals humanize.naturaldate of an aware datetime, in t's own zone and in English: today, tomorrow,
// yesterday, or month and day, with the year from five months away.
func NaturalDate(t, now time.Time) string {
	midnight := func(t time.Time) time.Time {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	days := int(midnight(t).Sub(midnight(now.In(t.Location()))) / day)
	switch {
	case days == 0:
		return "today"
	case days == 1:
		return "tomorrow"
	case days == -1:
		return "yesterday"
	case 12*max(days, -days) >= 5*365:
		return t.Format("Jan 02 2006")
	}
	return t.Format("Jan 02")
}

// Datetime equals str of an aware datetime, in t's own zone.
func Datetime(t time.Time) string { return strings.Replace(ISOFormat(t), "T", " ", 1) }

// TimedeltaRepr equals repr of a datetime.timedelta.
func TimedeltaRepr(d time.Duration) string {
	days, rest := InDays(d)
	var parts []string
	for _, p := range []struct {
		name string
		n    time.Duration
	}{{"days", days}, {"seconds", rest / time.Second}, {"microseconds", rest % time.Second / time.Microsecond}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", p.name, p.n))
		}
	}
	if parts == nil {
		parts = []string{"0"}
	}
	return "datetime.timedelta(" + strings.Join(parts, ", ") + ")"
}
