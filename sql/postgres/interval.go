package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

const Day = 24 * time.Hour

// DurationOf converts an interval as psycopg does for the Python scheduler: 12 months are 365 days, each
// further month is 30 days, a day is 24 hours. An interval beyond time.Duration (292 years) becomes the
// longest one.
func DurationOf(i pgtype.Interval) *time.Duration {
	if !i.Valid {
		return nil
	}
	days := int64(i.Days) + int64(i.Months%12)*30 + int64(i.Months/12)*365
	nanos := new(big.Int).Mul(big.NewInt(days), big.NewInt(Day.Microseconds()))
	nanos.Add(nanos, big.NewInt(i.Microseconds))
	nanos.Mul(nanos, big.NewInt(int64(time.Microsecond)))
	switch {
	case nanos.IsInt64():
		return new(time.Duration(nanos.Int64()))
	case nanos.Sign() > 0:
		return new(time.Duration(math.MaxInt64))
	}
	return new(time.Duration(-math.MaxInt64))
}

// TooLong reports whether a duration stands for an interval beyond time.Duration.
func TooLong(d time.Duration) bool { return d == math.MaxInt64 || d == -math.MaxInt64 }

// IntervalOf converts a duration as psycopg does for the Python scheduler: whole days as days, the rest in
// microseconds. nil is NULL.
func IntervalOf(d *time.Duration) pgtype.Interval {
	if d == nil {
		return pgtype.Interval{}
	}
	days, rest := *d/Day, *d%Day
	if rest < 0 { // as Python's timedelta: -1 h is -1 day and 23 hours
		days, rest = days-1, rest+Day
	}
	return pgtype.Interval{Days: int32(days), Microseconds: rest.Microseconds(), Valid: true}
}

// ErrNoInterval is the error for a text that is no interval in PostgreSQL.
var ErrNoInterval = errors.New("not an interval")

// ReadInterval parses an interval such as "1 year 2 days" by PostgreSQL's syntax, and converts it as
// DurationOf does. (PostgreSQL itself compares a year as 360 days, and counts 365.25 days in seconds since
// 1970.)
func (d *DB) ReadInterval(ctx context.Context, text string) (time.Duration, error) {
	var i pgtype.Interval
	err := d.pool.QueryRow(ctx, "select $1::text::interval", text).Scan(&i)
	if SQLStateClass(err) == "22" { // data exception
		return 0, fmt.Errorf("%w: %q", ErrNoInterval, text)
	}
	if err != nil {
		return 0, err
	}
	return *DurationOf(i), nil
}
