// Package graphs reads and writes graphs of tasks: it submits and extends them, releases tasks whose
// dependencies have ended, and archives graphs and tasks that have ended.
package graphs
