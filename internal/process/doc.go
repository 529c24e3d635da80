// Package process has what the daemons of this program share as processes: how they start, report and stop. A daemon is
// the components that it adds; see package daemons.
package process
