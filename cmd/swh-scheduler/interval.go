package main

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"swh-scheduler/sql"
)

const day = 24 * time.Hour

// readInterval has PostgreSQL read an interval.
func readInterval(ctx context.Context, store *sql.Store, text string) (time.Duration, error) {
	var i pgtype.Interval
	err := store.Pool().QueryRow(ctx, "select $1::text::interval", text).Scan(&i)
	const dataException = "22" // class of SQLSTATE: not an interval, or one out of range
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(pg.Code, dataException) {
		return 0, sentencef("'%s' is not an interval.", text)
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(i.Months)*30*day + time.Duration(i.Days)*day + time.Duration(i.Microseconds)*time.Microsecond, nil
}

// intervalForm is the peer's parse_time_interval: days, hours, minutes and
// seconds, in this order, each or none.
var intervalForm = regexp.MustCompile(`^` +
	`(?:(\d+\.?|\d*\.\d+) *(?:day|days|d))? ?` +
	`(?:(\d+\.?|\d*\.\d+) *(?:h|hr|hrs|hour|hours))? ?` +
	`(?:(\d+\.?|\d*\.\d+) *(?:m|min|mins|minute|minutes))? ?` +
	`(?:(\d+\.?|\d*\.\d+) *(?:s|sec|second|seconds))?$`)

// parseInterval reads an interval as the peer's command line does, such as
// "1 day 12 hours".
func parseInterval(text string) (time.Duration, error) {
	m := intervalForm.FindStringSubmatch(text)
	if m == nil || strings.TrimSpace(text) == "" {
		return 0, sentencef("'%s' is not an interval such as '12 hours' or '1 day 30 minutes'.", text)
	}
	sum := 0.0
	for i, unit := range []time.Duration{day, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			return 0, sentencef("'%s' is not an interval: %s", text, err)
		}
		sum += n * float64(unit)
	}
	const longest = 290 * 365 * day // about what a Duration holds
	if sum > float64(longest) {
		return 0, sentencef("'%s' is longer than 290 years.", text)
	}
	return time.Duration(sum).Round(time.Microsecond), nil
}
