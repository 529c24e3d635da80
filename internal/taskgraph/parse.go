package taskgraph

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pgjson"
	"swh-scheduler/internal/yaml11"
	"swh-scheduler/sql/graphs"
)

// document is the text of a graph or an extension. Tasks are decoded one by one so that errors can name them.
type document struct {
	Name  string            `json:"name"`
	Key   string            `json:"key"`
	Tasks []json.RawMessage `json:"tasks"`
	// Only of an extension; keys are names of tasks.
	Add    map[string][]json.RawMessage `json:"add_dependencies"`
	Remove map[string][]json.RawMessage `json:"remove_dependencies"`
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

// conditionDocument is a dependency with a condition.
type conditionDocument struct {
	Task json.RawMessage `json:"task"`
	On   string          `json:"on"`
	True string          `json:"true"` // the key "on", which YAML 1.1 reads as true
}

// Parse parses a graph in YAML or JSON. Deadlines that are durations count from now.
func Parse(text []byte, now time.Time) (graphs.NewGraph, error) {
	d, key, err := read(text)
	if err != nil {
		return graphs.NewGraph{}, err
	}
	if len(d.Add)+len(d.Remove) > 0 {
		return graphs.NewGraph{}, errors.New("add_dependencies and remove_dependencies are for the extension of a graph")
	}
	if len(d.Tasks) == 0 {
		return graphs.NewGraph{}, errors.New("the graph has no tasks")
	}
	p, err := parse(d, now, nil)
	if err != nil {
		return graphs.NewGraph{}, err
	}
	tasks, err := inOrder(p.tasks)
	return graphs.NewGraph{Name: d.Name, Key: key, Tasks: tasks}, err
}

// read parses a document and its key.
func read(text []byte) (d document, key graphs.Key, err error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return d, key, errors.New("the graph is empty: expected a mapping with a list of tasks")
	}
	if text[0] != '{' || !json.Valid(text) {
		root, err := yaml11.Parse(text)
		if err == nil {
			err = yaml11.Unambiguous(root)
		}
		if err == nil {
			text, err = yaml11.JSON(root)
		}
		if err != nil {
			return d, key, fmt.Errorf("the graph is neither JSON nor YAML: %w (put dates in quotes)", err)
		}
	}
	if fault := pgjson.CheckUnique(text); fault != nil {
		return d, key, faultOf(text, fault)
	}
	if err := decode(text, &d); err != nil {
		return d, key, fmt.Errorf("the graph is not as expected: %w", err)
	}
	if len(d.Key) > maxKey {
		return d, key, fmt.Errorf("the key has %d bytes, and may have %d", len(d.Key), maxKey)
	}
	if d.Key != "" {
		key, err = keyOf(d.Key, text)
	}
	return d, key, err
}

// maxKey is the maximum length of a key: an entry of an index of PostgreSQL has at most 2,700 bytes.
const maxKey = 1000

// faultOf returns the error for a fault, which names the task that it is in.
func faultOf(text []byte, fault *pgjson.Fault) error {
	if len(fault.Path) < 2 || fault.Path[0] != "tasks" {
		return fault
	}
	task := "task " + fault.Path[1]
	var d document
	if i, err := strconv.Atoi(strings.Trim(fault.Path[1], "[]")); err == nil {
		task = fmt.Sprintf("task %d", i+1)
		_ = json.Unmarshal(text, &d) // decodes all valid parts
		var named struct{ Name string }
		if i < len(d.Tasks) && json.Unmarshal(d.Tasks[i], &named) == nil && named.Name != "" {
			task = fmt.Sprintf("task %q", named.Name)
		}
	}
	return fmt.Errorf("%s: %w", task, &pgjson.Fault{Problem: fault.Problem, Path: fault.Path[2:]})
}

// keyOf returns a key with the digest of its document, which doesn't depend on the order of a mapping's keys.
func keyOf(key string, text []byte) (graphs.Key, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return graphs.Key{}, err
	}
	sorted, err := json.Marshal(value)
	digest := sha256.Sum256(sorted)
	return graphs.Key{Text: key, Digest: digest[:]}, err
}

// parse parses the tasks of a document and resolves their dependencies: on each other and, by name, on the tasks of ids.
func parse(d document, now time.Time, ids map[string]int64) (*parser, error) {
	p := &parser{now: now, places: make(map[string]int, len(d.Tasks)), ids: ids}
	for i, raw := range d.Tasks {
		if err := p.add(i, raw); err != nil {
			return nil, err
		}
	}
	return p, p.connect()
}

// decode decodes one JSON value. Unknown keys are an error.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must be %s, not %s", cmp.Or(wrong.Field, "it"), kindOf(wrong), cmp.Or(kindsOfJSON[wrong.Value], strings.TrimPrefix(wrong.Value, "number ")))
	}
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return errors.New("there is more after its end")
		}
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// kindsOfJSON names values as encoding/json calls them.
var kindsOfJSON = map[string]string{"array": "a list", "object": "a mapping", "string": "a text", "number": "a number", "bool": "true or false"}

func kindOf(e *json.UnmarshalTypeError) string {
	kinds := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Struct: "a mapping", reflect.Map: "a mapping", reflect.String: "a text"}
	return cmp.Or(kinds[e.Type.Kind()], "a whole number")
}

// parser collects tasks, so that dependencies can be resolved when all are there.
type parser struct {
	now       time.Time
	tasks     []graphs.NewTask
	dependsOn [][]json.RawMessage // of each task, as written
	places    map[string]int      // index in tasks, by name
	ids       map[string]int64    // numbers of the tasks that are already in the graph, by name
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
	if _, taken := p.ids[d.Name]; taken {
		return fmt.Errorf("the graph has a task %q already", d.Name)
	}
	t := graphs.NewTask{
		Name: d.Name, Type: d.Type, Priority: model.TaskPriority(d.Priority), Retries: d.Retries,
		Arguments: model.TaskArguments{Args: d.Args, Kwargs: d.Kwargs},
	}
	var err error
	switch {
	case !isKind(d.Args, '['):
		err = errors.New("args must be a list" + notNull(d.Args))
	case !isKind(d.Kwargs, '{'):
		err = errors.New("kwargs must be a mapping" + notNull(d.Kwargs))
	case d.Priority != "" && d.Priority != "high" && d.Priority != "normal" && d.Priority != "low":
		err = fmt.Errorf("priority %q is not one of high, normal, low", d.Priority)
	case d.Retries != nil && *d.Retries < 0:
		err = fmt.Errorf("retries %d is negative", *d.Retries)
	case len(d.DependsOn) > graphs.MaxDependencies:
		err = fmt.Errorf("it has %d dependencies, and may have %d", len(d.DependsOn), graphs.MaxDependencies)
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

// isKind reports whether a JSON text is missing or begins with first.
func isKind(text json.RawMessage, first byte) bool { return len(text) == 0 || text[0] == first }

func notNull(text json.RawMessage) string {
	if string(text) == "null" {
		return ", not null: leave it out if there are none"
	}
	return ""
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
	if at = at.UTC(); err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, fmt.Errorf("deadline %q is neither a date such as 2030-01-31T12:00:00Z nor a duration such as 36h", text)
	}
	return at, nil
}

// connect resolves dependencies.
func (p *parser) connect() error {
	for i := range p.tasks {
		t := &p.tasks[i]
		var err error
		if t.DependsOn, err = p.dependencies(t.Name, p.dependsOn[i]); err != nil {
			return err
		}
		for _, name := range graphs.References(t.Arguments) {
			if !slices.ContainsFunc(t.DependsOn, func(d graphs.NewDependency) bool { return d.Name == name }) {
				return fmt.Errorf("task %q asks for the number of %q, on which it doesn't depend", t.Name, name)
			}
		}
	}
	return nil
}

// dependencies resolves the dependencies of a task.
func (p *parser) dependencies(of string, written []json.RawMessage) (all []graphs.NewDependency, err error) {
	type identity struct {
		task  int64
		place int
	}
	seen := map[identity]bool{} // an existing task may be given by its name and by its number
	for _, raw := range written {
		d, what, err := p.dependency(of, raw)
		if err != nil {
			return nil, fmt.Errorf("task %q %w", of, err)
		}
		if seen[identity{d.Task, d.Place}] {
			return nil, fmt.Errorf("task %q depends on %s twice", of, what)
		}
		seen[identity{d.Task, d.Place}] = true
		all = append(all, d)
	}
	return all, nil
}

var errOnItself = errors.New("depends on itself and waits for task graph release, so it can't have a condition")

// dependency resolves a dependency of a task. A string is a name in the graph, an integer the number of an existing
// task, and a mapping one of these with a condition. what names it in errors.
func (p *parser) dependency(of string, raw json.RawMessage) (d graphs.NewDependency, what string, err error) {
	task := raw
	if raw[0] == '{' {
		var c conditionDocument
		if err := decode(raw, &c); err != nil {
			return d, "", fmt.Errorf("depends on %s: %w", raw, err)
		}
		task, d.On = c.Task, graphs.Condition(cmp.Or(c.On, c.True))
		if d.On != graphs.OnCompleted && d.On != graphs.OnResolved && d.On != graphs.OnFailed {
			return d, "", fmt.Errorf("depends on %s: on %q is not one of completed, resolved, failed", task, d.On)
		}
	}
	switch {
	case json.Unmarshal(task, &d.Name) == nil && task[0] == '"':
		place, isNew := p.places[d.Name]
		id, known := p.ids[d.Name]
		if !isNew && !known {
			return d, "", fmt.Errorf("depends on %q, which is not in the graph", d.Name)
		}
		if d.Name == of && d.On != "" {
			return d, "", errOnItself
		}
		d.Place, d.Task = place, id
		return d, strconv.Quote(d.Name), nil
	case json.Unmarshal(task, &d.Task) == nil && d.Task > 0:
		if d.Task == p.ids[of] && d.On != "" {
			return d, "", errOnItself
		}
		return d, fmt.Sprintf("task %d", d.Task), nil
	}
	return d, "", fmt.Errorf("depends on %s, which is neither a name in the graph nor the number of a task", raw)
}
