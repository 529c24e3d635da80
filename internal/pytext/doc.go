// Package pytext writes and reads text as Python does, for scripts and files made for the
// Python scheduler: repr, str of a timedelta, isoformat, json and csv, humanize's
// naturaldate, tabulate's tables, and the dates and durations of its command line.
package pytext
