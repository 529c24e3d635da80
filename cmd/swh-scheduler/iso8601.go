package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// iso8601 are the dates that the peer's library of that name takes: with the
// time or parts of it, in basic or extended form.
var iso8601 = regexp.MustCompile(`^(\d{4})(?:(?:-(\d{1,2})|(\d{2}))(?:(?:-(\d{1,2})|(\d{2}))` +
	`(?:[ T](\d{2})(?::?(\d{2}))?(?::?(\d{1,2})(?:[.,](\d+))?)?(Z|[-+]\d{2}:?(?:\d{2})?)?)?)?)?$`)

// parseISO8601 reads a date; one that names no zone is in UTC.
func parseISO8601(text string) (time.Time, error) {
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
	zone, err := isoZone(m[10])
	if err != nil {
		return time.Time{}, fmt.Errorf("%q: %w", text, err)
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, micro*1000, zone)
	if year == 0 || t.Month() != time.Month(month) || t.Day() != day || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, fmt.Errorf("there is no date %q", text)
	}
	return t, nil
}

// isoZone is UTC, or an offset from it: +HH, +HHMM or +HH:MM.
func isoZone(text string) (*time.Location, error) {
	if text == "" || text == "Z" {
		return time.UTC, nil
	}
	var hours, minutes int
	digits := text[1:3]
	if rest := text[3:]; len(rest) >= 2 {
		digits += rest[len(rest)-2:]
	} else {
		digits += "00"
	}
	if _, err := fmt.Sscanf(digits, "%2d%2d", &hours, &minutes); err != nil || hours > 23 || minutes > 59 {
		return nil, fmt.Errorf("no such zone: %s", text)
	}
	offset := hours*3600 + minutes*60
	if text[0] == '-' {
		offset = -offset
	}
	return time.FixedZone("", offset), nil
}
