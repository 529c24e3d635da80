package sql

import (
	"math"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

const (
	day            = 24 * time.Hour
	daysInMonth    = 30
	daysInYear     = 365
	monthsInYear   = 12
	microsInDay    = int64(day / time.Microsecond)
	nanosInMicro   = int64(time.Microsecond)
	maxDurationNum = math.MaxInt64
)

// durationOf reads an interval as psycopg does for the peer: a year is 365 days,
// a month of what is left 30 days, a day 24 hours. What is longer than a
// time.Duration can be (292 years) becomes the longest there is.
func durationOf(i pgtype.Interval) *time.Duration {
	if !i.Valid {
		return nil
	}
	years, months := int64(i.Months/monthsInYear), int64(i.Months%monthsInYear)
	days := int64(i.Days) + months*daysInMonth + years*daysInYear

	nanos := new(big.Int).Mul(big.NewInt(days), big.NewInt(microsInDay))
	nanos.Add(nanos, big.NewInt(i.Microseconds))
	nanos.Mul(nanos, big.NewInt(nanosInMicro))
	var d time.Duration
	switch {
	case nanos.IsInt64():
		d = time.Duration(nanos.Int64())
	case nanos.Sign() > 0:
		d = maxDurationNum
	default:
		d = -maxDurationNum
	}
	return &d
}

// intervalOf writes a duration as psycopg does for the peer: whole days as
// days, the rest in microseconds. nil is NULL.
func intervalOf(d *time.Duration) pgtype.Interval {
	if d == nil {
		return pgtype.Interval{}
	}
	days := *d / day
	rest := *d % day
	if rest < 0 { // as Python's timedelta: -1 h is -1 day and 23 hours
		days--
		rest += day
	}
	return pgtype.Interval{Days: int32(days), Microseconds: rest.Microseconds(), Valid: true}
}
