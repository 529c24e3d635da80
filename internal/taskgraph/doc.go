// Package taskgraph reads graphs of tasks as people write them, and shows how
// stored ones stand: what they wait for, how long they may still take, and a
// picture.
//
// A graph is YAML or JSON (docs/graphs.md has the format). Parse checks all that
// can be known without the database: names, dependencies, cycles. Its result is in
// an order in which each task comes after those it depends on, which
// sql.SubmitGraph wants. Errors name the task.
//
// The rest of the package is computed from the rows of a graph, read in one go:
// a few hundred bytes a task, and time in proportion to tasks and edges.
package taskgraph
