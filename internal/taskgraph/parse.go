package taskgraph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/yaml11"
	"swh-scheduler/sql/db"
)

// MaxDependencies is the maximum number of dependencies of a task.
const MaxDependencies = 10_000

// document is a graph as written. Tasks are decoded one by one, so that errors can name them.
type document struct {
	Name  string            `json:"name"`
	Tasks []json.RawMessage `json:"tasks"`
}

type taskDocument struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Args      json.RawMessage   `json:"args"`
	Kwargs    json.RawMessage   `json:"kwargs"`
	Priority  string            `json:"priority"`
	Retries   *int64            `json:"retries"`
	DependsOn []json.RawMessage `json:"depends_on"`
	Requires  string            `json:"requires"`
	Deadline  string            `json:"deadline"`
}

// Parse reads a graph from YAML or JSON. Deadlines that are durations start at now.
func Parse(text []byte, now time.Time) (db.NewGraph, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return db.NewGraph{}, errors.New("the graph is empty: expected a mapping with a list of tasks")
	}
	if text[0] != '{' || !json.Valid(text) {
		root, err := yaml11.Parse(text)
		if err == nil {
			text, err = yaml11.JSON(root)
		}
		if err != nil {
			return db.NewGraph{}, fmt.Errorf("the graph is neither JSON nor YAML: %w (put dates in quotes)", err)
		}
	}
	var d document
	if err := decode(text, &d); err != nil {
		return db.NewGraph{}, fmt.Errorf("the graph is not as expected: %w", err)
	}
	if len(d.Tasks) == 0 {
		return db.NewGraph{}, errors.New("the graph has no tasks")
	}
	p := parser{now: now, places: make(map[string]int, len(d.Tasks))}
	for i, raw := range d.Tasks {
		if err := p.add(i, raw); err != nil {
			return db.NewGraph{}, err
		}
	}
	if err := p.connect(); err != nil {
		return db.NewGraph{}, err
	}
	tasks, err := inOrder(p.tasks)
	return db.NewGraph{Name: d.Name, Tasks: tasks}, err
}

// decode reads one JSON value without unknown keys.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must be %s, not %s", wrong.Field, kindOf(wrong), wrong.Value)
	}
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return errors.New("there is more after its end")
		}
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func kindOf(e *json.UnmarshalTypeError) string {
	kinds := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Struct: "a mapping", reflect.String: "a text"}
	return cmp.Or(kinds[e.Type.Kind()], "a number")
}

// parser collects tasks, to resolve their dependencies when all are known.
type parser struct {
	now       time.Time
	tasks     []db.NewGraphTask
	dependsOn [][]json.RawMessage // of each task, as written
	places    map[string]int      // index in tasks, by name
}

func (p *parser) add(i int, raw json.RawMessage) error {
	var d taskDocument
	if err := decode(raw, &d); err != nil {
		if d.Name != "" {
			return fmt.Errorf("task %q: %w", d.Name, err)
		}
		return fmt.Errorf("task %d: %w", i+1, err)
	}
	switch {
	case d.Name == "":
		return fmt.Errorf("task %d has no name", i+1)
	case d.Type == "":
		return fmt.Errorf("task %q has no type", d.Name)
	}
	if first, taken := p.places[d.Name]; taken {
		return fmt.Errorf("tasks %d and %d are both named %q", first+1, i+1, d.Name)
	}
	if strings.ContainsRune(d.Name, 0) || bytes.Contains(d.Args, []byte(`\u0000`)) || bytes.Contains(d.Kwargs, []byte(`\u0000`)) {
		return fmt.Errorf("task %q: PostgreSQL has no texts with a NUL", d.Name)
	}
	t := db.NewGraphTask{
		Name: d.Name, Type: d.Type, Priority: model.TaskPriority(d.Priority), Retries: d.Retries,
		Arguments: model.TaskArguments{Args: d.Args, Kwargs: d.Kwargs},
	}
	var err error
	switch {
	case !isKind(d.Args, '['):
		err = errors.New("args must be a list")
	case !isKind(d.Kwargs, '{'):
		err = errors.New("kwargs must be a mapping")
	case d.Priority != "" && d.Priority != "high" && d.Priority != "normal" && d.Priority != "low":
		err = fmt.Errorf("priority %q is not one of high, normal, low", d.Priority)
	case d.Retries != nil && *d.Retries < 0:
		err = fmt.Errorf("retries %d is negative", *d.Retries)
	case len(d.DependsOn) > MaxDependencies:
		err = fmt.Errorf("it has %d dependencies, and may have %d", len(d.DependsOn), MaxDependencies)
	case d.Requires != "" && d.Requires != "all-completed" && d.Requires != "all-resolved":
		err = fmt.Errorf("requires %q is not one of all-completed, all-resolved", d.Requires)
	default:
		t.AnyResult = d.Requires == "all-resolved"
		t.Deadline, err = deadline(d.Deadline, p.now)
	}
	if err != nil {
		return fmt.Errorf("task %q: %w", d.Name, err)
	}
	p.places[d.Name] = i
	p.tasks = append(p.tasks, t)
	p.dependsOn = append(p.dependsOn, d.DependsOn)
	return nil
}

// isKind reports whether a JSON text begins with first, or is absent.
func isKind(text json.RawMessage, first byte) bool {
	return len(text) == 0 || string(text) == "null" || text[0] == first
}

func deadline(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if after, err := time.ParseDuration(text); err == nil {
		if after <= 0 {
			return time.Time{}, fmt.Errorf("deadline %q is over already", text)
		}
		return now.Add(after).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, fmt.Errorf("deadline %q is neither a date such as 2030-01-31T12:00:00Z nor a duration such as 36h", text)
	}
	return at.UTC(), nil
}

// connect resolves dependencies: texts are names in the graph, integers numbers of
// existing tasks.
func (p *parser) connect() error {
	for i := range p.tasks {
		t := &p.tasks[i]
		seen := map[any]bool{} // indexes in the graph and numbers of tasks
		for _, raw := range p.dependsOn[i] {
			var name string
			var id int64
			var dependency any
			what := ""
			switch {
			case json.Unmarshal(raw, &name) == nil && raw[0] == '"':
				place, known := p.places[name]
				if !known {
					return fmt.Errorf("task %q depends on %q, which is not in the graph", t.Name, name)
				}
				dependency, what = place, strconv.Quote(name)
				t.DependsOn = append(t.DependsOn, place)
			case json.Unmarshal(raw, &id) == nil && id > 0:
				dependency, what = id, fmt.Sprintf("task %d", id)
				t.Existing = append(t.Existing, id)
			default:
				return fmt.Errorf("task %q depends on %s, which is neither a name in the graph nor the number of a task", t.Name, raw)
			}
			if seen[dependency] {
				return fmt.Errorf("task %q depends on %s twice", t.Name, what)
			}
			seen[dependency] = true
		}
	}
	return nil
}
