// Package postgres is the connection to PostgreSQL: its address, the pool, sessions, transactions, the
// database's clock, and the classes of errors. It uses no table.
//
// # Failures
//
// [Open] fails only for an unusable DSN. Any other error may be a lost connection ([IsUnreachable]). pgx
// reconnects at the next call, so daemons log the error and retry. No error contains a password.
//
// # Poolers
//
// Behind PgBouncer in transaction mode, set [Options.Direct].
//
// # Time
//
// Times are UTC, in microseconds. Intervals become time.Duration as in the Python scheduler's
// driver: a year is 365 days, a month 30, a day 24 hours.
package postgres
