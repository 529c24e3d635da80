// Package daemons has the program's daemons, a file each: a struct of options whose Run returns when the context ends.
//
// Run calls process.Run, which starts, reports and stops, with a function that returns the daemon's components:
// those of packages runner, recurrent, listener, journal, rpc and dashboard, and, but for the dashboard, a keeper with maintenance jobs
// (maintenance.go). A daemon that sends has also what delivers (sending.go) and, where the configuration has them, what
// divides slots between groups, lanes and hosters (dividing.go).
package daemons
