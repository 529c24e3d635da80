package model

import (
	"fmt"
	"slices"
	"strings"
)

// Restriction restricts a runner to some task types (--task-type, --task-type-pattern). Empty, it admits all.
type Restriction struct {
	TaskTypes []string `json:"task_types,omitempty"`
	Patterns  []string `json:"patterns,omitempty"` // prefixes
}

// Admits reports whether a task type is among the names (or there are none) and starts with a pattern (or there is none).
func (r Restriction) Admits(taskType string) bool {
	named := len(r.TaskTypes) == 0 || slices.Contains(r.TaskTypes, taskType)
	return named && (len(r.Patterns) == 0 ||
		slices.ContainsFunc(r.Patterns, func(prefix string) bool { return strings.HasPrefix(taskType, prefix) }))
}

// String returns the options that make the restriction; "" for none. It names at most five types and patterns each.
func (r Restriction) String() string {
	var options []string
	for _, o := range []struct {
		name   string
		values []string
	}{{"--task-type", r.TaskTypes}, {"--task-type-pattern", r.Patterns}} {
		const most = 5
		for _, value := range o.values[:min(most, len(o.values))] {
			options = append(options, o.name+" "+value)
		}
		if more := len(o.values) - most; more > 0 {
			options = append(options, fmt.Sprintf("and %d more", more))
		}
	}
	return strings.Join(options, " ")
}
