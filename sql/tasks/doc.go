// Package tasks reads and writes task types, tasks and their runs, as the Python scheduler does.
package tasks
