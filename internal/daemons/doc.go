// Package daemons has the program's daemons, a file each: a struct of options whose Run returns when the context ends.
//
// Run calls process.Run, which starts, reports and stops, with a function that returns the daemon's components.
// These are from packages runner, recurrent, listener, journal, rpc and dashboard. All daemons but the dashboard
// also have a keeper with maintenance jobs (maintenance.go). A daemon that sends has a deliverer too (sending.go).
// If the configuration has groups, lanes or hosters, it also has the components that divide slots between them
// (dividing.go).
package daemons
