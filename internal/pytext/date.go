package pytext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Forms of dates and times, in any combination. A weekday is ignored.
var (
	dateForms = []string{"2006-1-2", "20060102", "2006/1/2", "2 Jan 2006", "2 January 2006", "Jan 2 2006", "January 2 2006"}
	timeForms = []string{"", "15", "15:4", "15:4:5", "15:4:5.999999", "1504", "150405", "3PM", "3:4PM"}
	weekday   = regexp.MustCompile(`(?i)^(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+`)
	split     = regexp.MustCompile(`^(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{8}|.*?\d{4})(?:[Tt]|\s+|$)(.*?)\s*(Z|UTC|GMT|[-+]\d{2}:?(?:\d{2})?)?$`)
	relative  = regexp.MustCompile(`^(?:in (\d+) (second|minute|hour|day|week)s?|(\d+) (second|minute|hour|day|week)s? ago)$`)
)

// ParseDate reads a date as the Python scheduler's command line does: ISO 8601, RFC 5322 and some common forms, with
// or without a time and a zone; without a zone, it is in UTC. Unlike Python's dateutil, it refuses ambiguous texts: "in
// 2 days" is not the second of the month.
func ParseDate(text string, now time.Time) (time.Time, error) {
	plain := strings.Join(strings.Fields(text), " ")
	if t, ok := relativeTime(strings.ToLower(plain), now); ok {
		return t, nil
	}
	m := split.FindStringSubmatch(strings.ReplaceAll(weekday.ReplaceAllString(plain, ""), ",", ""))
	if m == nil {
		m = make([]string, 4)
	}
	zone, known := zoneOf(m[3])
	t, ok := parseParts(m[1], strings.ToUpper(m[2]), zone)
	switch {
	case ok && known:
		return t.UTC(), nil
	case ok:
		return time.Time{}, Sentencef("'%s' has no such time zone.", text)
	}
	return time.Time{}, Sentencef("'%s' is not a date such as 2030-01-31, 2030-01-31T12:30:00+01:00, 'Thu, 31 Jan 2030 12:30:00 +0100', tomorrow or 'in 2 days'.", text)
}

func parseParts(date, clock string, zone *time.Location) (time.Time, bool) {
	for _, dateForm := range dateForms {
		for _, timeForm := range timeForms {
			if (timeForm == "") != (clock == "") {
				continue
			}
			if t, err := time.ParseInLocation(dateForm+"T"+timeForm, date+"T"+clock, zone); err == nil {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// zoneOf reads a zone: "", Z, UTC and GMT, or an offset +HH, +HHMM or +HH:MM.
func zoneOf(text string) (*time.Location, bool) {
	switch text {
	case "", "Z", "UTC", "GMT":
		return time.UTC, true
	}
	digits := strings.ReplaceAll(text[1:], ":", "")
	hours, _ := strconv.Atoi(digits[:2])
	minutes, _ := strconv.Atoi(digits[2:]) // 0 if there are none
	if hours > 23 || minutes > 59 {
		return time.UTC, false
	}
	offset := hours*3600 + minutes*60
	if text[0] == '-' {
		offset = -offset
	}
	return time.FixedZone("", offset), true
}

func relativeTime(text string, now time.Time) (time.Time, bool) {
	switch text {
	case "now", "today":
		return now, true
	case "tomorrow":
		return now.AddDate(0, 0, 1), true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	}
	m := relative.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}, false
	}
	unit := units[m[2]+m[4]]
	n, err := strconv.ParseInt(m[1]+m[3], 10, 32)
	if err != nil || time.Duration(n) > 100*365*day/unit {
		return time.Time{}, false
	}
	if m[3] != "" {
		n = -n
	}
	return now.Add(time.Duration(n) * unit), true
}

// iso8601 matches the dates that Python's library iso8601 accepts: with all or part of the time, in basic or extended
// form.
var iso8601 = regexp.MustCompile(`^(\d{4})(?:(?:-(\d{1,2})|(\d{2}))(?:(?:-(\d{1,2})|(\d{2}))` +
	`(?:[ T](\d{2})(?::?(\d{2}))?(?::?(\d{1,2})(?:[.,](\d+))?)?(Z|[-+]\d{2}:?(?:\d{2})?)?)?)?)?$`)

// ParseISO8601 reads a date of a file as the Python scheduler does: only ISO 8601, in UTC if it has no zone.
func ParseISO8601(text string) (time.Time, error) {
	m := iso8601.FindStringSubmatch(text)
	yearAndMonthOnly := m != nil && m[3] != "" && m[4]+m[5] == ""
	if m == nil || yearAndMonthOnly {
		return time.Time{}, fmt.Errorf("%q is not an ISO 8601 date such as 2030-01-31T12:30:00Z", text)
	}
	number := func(otherwise int, texts ...string) int {
		for _, text := range texts {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
		return otherwise
	}
	year, month, day := number(0, m[1]), number(1, m[2], m[3]), number(1, m[4], m[5])
	hour, minute, second := number(0, m[6]), number(0, m[7]), number(0, m[8])
	micro := number(0, (m[9] + "000000")[:6])
	zone, known := zoneOf(m[10])
	if !known {
		return time.Time{}, fmt.Errorf("%q: no such zone: %s", text, m[10])
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, micro*1000, zone)
	if year == 0 || t.Month() != time.Month(month) || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, fmt.Errorf("there is no date %q", text)
	}
	return t, nil
}
