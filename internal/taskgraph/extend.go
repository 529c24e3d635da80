package taskgraph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// Extend changes a graph by a text in YAML or JSON, all or nothing: it adds tasks and dependencies, and removes
// dependencies. Then it settles graphs.
func Extend(ctx context.Context, store *db.Store, graph int64, text []byte, now time.Time) (s Submitted, err error) {
	d, key, err := read(text)
	if err == nil && len(d.Tasks)+len(d.Add)+len(d.Remove) == 0 {
		err = errors.New("there is nothing to change: expected tasks, add_dependencies or remove_dependencies")
	}
	if err == nil && d.Name != "" {
		err = errors.New("a graph that was submitted has its name")
	}
	if err != nil {
		return s, &RefusedError{err}
	}
	var e graphs.Extension
	stored, err := store.ExtendGraph(ctx, graph, key, func(tasks []graphs.Task) (graphs.Extension, error) {
		var err error
		if e, err = d.extension(tasks, now); err != nil {
			err = &RefusedError{err}
		}
		return e, err
	}, now)
	if err == nil {
		s, err = submitted(ctx, store, stored, e.Tasks)
	}
	s.Size.Dependencies += len(e.Add)
	s.Size.Removed = len(e.Remove)
	if err != nil || stored.Known {
		return s, err
	}
	return s, Settle(ctx, store, graph)
}

// extension resolves a document against the tasks that the graph has.
func (d document) extension(tasks []graphs.Task, now time.Time) (e graphs.Extension, err error) {
	ids := make(map[string]int64, len(tasks))
	for _, t := range tasks {
		ids[t.Name] = t.ID
	}
	p, err := parse(d, now, ids)
	if err != nil {
		return e, err
	}
	if e.Tasks, err = inOrder(p.tasks); err != nil {
		return e, err
	}
	for i, t := range e.Tasks {
		p.places[t.Name] = i
	}
	if e.Add, err = p.changes(d.Add); err != nil {
		return e, fmt.Errorf("add_dependencies: %w", err)
	}
	remove, err := p.changes(d.Remove)
	for _, r := range remove {
		if r.On.Task == 0 || r.On.On != "" {
			err = fmt.Errorf("%q: expected names or numbers of existing tasks", r.On.Name)
		}
		e.Remove = append(e.Remove, graphs.Edge{Task: r.Task, DependsOn: r.On.Task})
	}
	if err != nil {
		err = fmt.Errorf("remove_dependencies: %w", err)
	}
	return e, err
}

// changes resolves dependencies that are added or removed, by name of the dependent task.
func (p *parser) changes(written map[string][]json.RawMessage) (changes []graphs.MoreDependency, err error) {
	for _, name := range slices.Sorted(maps.Keys(written)) {
		task, known := p.ids[name]
		if !known {
			return nil, fmt.Errorf("the graph had no task %q", name)
		}
		all, err := p.dependencies(name, written[name])
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			changes = append(changes, graphs.MoreDependency{Task: task, On: d})
		}
	}
	return changes, nil
}
