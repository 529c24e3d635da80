// Package taskgraph parses graphs of tasks and reports on stored ones: progress, expected end, pictures.
//
// A graph is written in YAML or JSON (docs/how-to/graphs.md). Parse checks names, dependencies and cycles, without
// the database. It returns the tasks in an order in which each comes after its dependencies, as
// graphs.Store.SubmitGraph needs. Errors name the task.
//
// A report takes a few hundred bytes per task, and time proportional to tasks and edges.
package taskgraph
