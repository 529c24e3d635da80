// Package pytext writes values as Python writes them, for output that scripts
// made for the Python command line read: repr, str of a timedelta, isoformat,
// and the humanize package's naturaldate.
package pytext
