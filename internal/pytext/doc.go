// Package pytext writes and reads text as Python does, for what is shared with
// scripts and files made for the Python command line: repr, str of a timedelta,
// isoformat, the csv module's rows, the humanize package's naturaldate, and the
// tabulate package's tables.
package pytext
