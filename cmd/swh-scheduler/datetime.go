package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// dateTime is an option that is a date, as the peer's click_utils.DATETIME: a
// date, with or without a time, with or without a zone; ISO 8601, RFC 5322, and
// some ways people write them. Where the peer guesses at anything else (its
// dateutil makes the second of this month of "in 2 days"), this is strict.
type dateTime struct {
	text  string
	value time.Time
	naive bool // it names no zone: it is in the server's
}

func (d *dateTime) String() string { return d.text }
func (d *dateTime) Type() string   { return "DATE" }
func (d *dateTime) isZero() bool   { return d.text == "" }

// in is the moment meant, where zone is the server's.
func (d *dateTime) in(zone *time.Location) time.Time {
	if !d.naive {
		return d.value
	}
	t := d.value
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
}

// Dates and times that may be combined. A weekday is read over.
var (
	dateForms = []string{"2006-1-2", "20060102", "2006/1/2", "2 Jan 2006", "2 January 2006", "Jan 2 2006", "January 2 2006"}
	timeForms = []string{"", "15", "15:4", "15:4:5", "15:4:5.999999", "1504", "150405", "3PM", "3:4PM"}
	weekday   = regexp.MustCompile(`(?i)^(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+`)
	split     = regexp.MustCompile(`^(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{8}|.*?\d{4})(?:[Tt]|\s+|$)(.*?)\s*(Z|UTC|GMT|[-+]\d{2}:?(?:\d{2})?)?$`)
	relative  = regexp.MustCompile(`^(?:in (\d+) (second|minute|hour|day|week)s?|(\d+) (second|minute|hour|day|week)s? ago)$`)
)

// Set reads a date.
func (d *dateTime) Set(text string) error {
	d.text = text
	plain := strings.Join(strings.Fields(text), " ")
	if t, ok := relativeTime(strings.ToLower(plain), time.Now()); ok {
		d.value, d.naive = t, false
		return nil
	}
	m := split.FindStringSubmatch(strings.ReplaceAll(weekday.ReplaceAllString(plain, ""), ",", ""))
	if m != nil {
		if t, ok := parseParts(m[1], strings.ToUpper(m[2])); ok {
			return d.setZone(t, m[3])
		}
	}
	return sentencef("'%s' is not a date such as 2030-01-31, 2030-01-31T12:30:00+01:00, 'Thu, 31 Jan 2030 12:30:00 +0100', tomorrow or 'in 2 days'.", text)
}

func parseParts(date, clock string) (time.Time, bool) {
	for _, dateForm := range dateForms {
		for _, timeForm := range timeForms {
			if (timeForm == "") != (clock == "") {
				continue
			}
			if t, err := time.Parse(dateForm+"T"+timeForm, date+"T"+clock); err == nil {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// setZone completes the date by the zone that was written, if any.
func (d *dateTime) setZone(t time.Time, zone string) error {
	d.value, d.naive = t, zone == ""
	if zone == "" || zone == "Z" || zone == "UTC" || zone == "GMT" {
		return nil
	}
	digits := strings.ReplaceAll(zone[1:], ":", "")
	hours, _ := strconv.Atoi(digits[:2])
	minutes, _ := strconv.Atoi(digits[2:])
	if hours > 23 || minutes > 59 {
		return sentencef("'%s' has no such time zone.", d.text)
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if zone[0] == '-' {
		offset = -offset
	}
	d.value = t.Add(-offset)
	return nil
}

// relativeTime reads a time that is relative to now.
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
	unit := map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
	}[m[2]+m[4]]
	n, err := strconv.ParseInt(m[1]+m[3], 10, 32)
	if err != nil || time.Duration(n) > 100*365*24*time.Hour/unit {
		return time.Time{}, false
	}
	if m[3] != "" {
		n = -n
	}
	return now.Add(time.Duration(n) * unit), true
}
