package taskgraph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/graphs"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// Parse reads all fields of a task, from YAML and from JSON, and returns the tasks in an order in which they can be
// stored.
func TestParse(t *testing.T) {
	yaml := `
name: import
tasks:
  - name: verify
    type: verify-all
    depends_on: [{task: load, on: failed}, {task: 12, on: completed}, verify]
    requires: all-resolved
    deadline: 36h
  - {name: list, type: list-x, args: [1, x], kwargs: {n: 1180591620717411303424}, priority: high, retries: 3}
  - {name: load, type: load-x, depends_on: [list], deadline: "2030-01-02T00:00:00+01:00", requires: all-completed}
`
	json := `{"name": "import", "tasks": [
		{"name": "verify", "type": "verify-all", "depends_on": [{"task": "load", "on": "failed"}, {"on": "completed", "task": 12}, "verify"], "requires": "all-resolved", "deadline": "36h"},
		{"name": "list", "type": "list-x", "args": [1,"x"], "kwargs": {"n":1180591620717411303424}, "priority": "high", "retries": 3},
		{"name": "load", "type": "load-x", "depends_on": ["list"], "deadline": "2030-01-02T00:00:00+01:00"}]}`
	want := graphs.NewGraph{Name: "import", Tasks: []graphs.NewTask{
		{
			Name: "list", Type: "list-x", Priority: "high", Retries: new(int64(3)),
			Arguments: model.TaskArguments{Args: []byte(`[1,"x"]`), Kwargs: []byte(`{"n":1180591620717411303424}`)},
		},
		{Name: "load", Type: "load-x", DependsOn: []graphs.NewDependency{{Name: "list"}}, Deadline: time.Date(2030, 1, 1, 23, 0, 0, 0, time.UTC)},
		{Name: "verify", Type: "verify-all", DependsOn: []graphs.NewDependency{{Name: "load", Place: 1, On: graphs.OnFailed}, {Task: 12, On: graphs.OnCompleted}, {Name: "verify", Place: 2}}, AnyResult: true, Deadline: now.Add(36 * time.Hour)},
	}}
	for _, text := range []string{yaml, json} {
		got, err := Parse([]byte(text), now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Errors say what is wrong and name the task.
func TestParseErrors(t *testing.T) {
	many := make([]string, graphs.MaxDependencies+1)
	for i := range many {
		many[i] = fmt.Sprint(i + 1)
	}
	for text, want := range map[string]string{
		"":                            "the graph is empty: expected a mapping with a list of tasks",
		"[1]":                         "the graph is not as expected: it must be a mapping, not a list",
		"tasks: []":                   "the graph has no tasks",
		"tasks: 1":                    "tasks must be a list, not a number",
		"task: [{name: a, type: x}]":  `unknown field "task"`,
		"tasks: [{type: x}]":          "task 1 has no name",
		"tasks: [{name: a}]":          `task "a" has no type`,
		"tasks: [1]":                  "task 1",
		"tasks: [{name: a, type: 1}]": `task "a": type must be a text, not a number`,
		"tasks: [{name: a, type: x, dependson: [b]}]":                                                           `task "a": unknown field "dependson"`,
		"tasks: [{name: a, type: x, args: 1}]":                                                                  `task "a": args must be a list`,
		"tasks: [{name: a, type: x, kwargs: [1]}]":                                                              `task "a": kwargs must be a mapping`,
		"tasks: [{name: a, type: x, priority: urgent}]":                                                         `task "a": priority "urgent" is not one of high, normal, low`,
		"tasks: [{name: a, type: x, requires: some}]":                                                           `task "a": requires "some" is not one of all-completed, all-resolved`,
		"tasks: [{name: a, type: x, retries: -1}]":                                                              `task "a": retries -1 is negative`,
		"tasks: [{name: a, type: x, deadline: soon}]":                                                           `task "a": deadline "soon" is neither a date such as 2030-01-31T12:00:00Z nor a duration such as 36h`,
		"tasks: [{name: a, type: x, deadline: 2030-01-01}]":                                                     "put dates in quotes",
		"tasks: [{name: a, type: x, deadline: '-1h'}]":                                                          `task "a": deadline "-1h" is over already`,
		"tasks: [{name: a, type: x, deadline: 0s}]":                                                             `task "a": deadline "0s" is over already`,
		"tasks: [{name: a, type: x, deadline: '0001-01-01T00:00:00Z'}]":                                         `task "a": deadline "0001-01-01T00:00:00Z" is neither a date`,
		"tasks: [{name: a, type: x}, {name: a, type: x}]":                                                       `tasks 1 and 2 are both named "a"`,
		"tasks: [{name: a, type: x, depends_on: [b]}]":                                                          `task "a" depends on "b", which is not in the graph`,
		"tasks: [{name: a, type: x, depends_on: [{task: b}]}, {name: b, type: x}]":                              `task "a" depends on "b": on "" is not one of completed, resolved, failed`,
		"tasks: [{name: a, type: x, depends_on: [{task: b, if: failed}]}]":                                      `unknown field "if"`,
		"tasks: [{name: a, type: x, depends_on: [{on: failed}]}]":                                               `which is neither`,
		"tasks: [{name: a, type: x, depends_on: [{task: a, on: failed}]}]":                                      `task "a" depends on itself and waits for task graph release, so it can't have a condition`,
		"tasks: [{name: a, type: x, depends_on: [b, {task: b, on: failed}]}, {name: b, type: x}]":               `task "a" depends on "b" twice`,
		"tasks: [{name: a, type: x, depends_on: [b], args: ['{{ task.c.id }}']}, {name: b, type: x}]":           `task "a" asks for the number of "c", on which it doesn't depend`,
		"{tasks: [{name: a, type: x}], remove_dependencies: {a: [b]}}":                                          "are for the extension of a graph",
		"tasks: [{name: a, type: x, depends_on: [-1]}]":                                                         `task "a" depends on -1, which is neither a name in the graph nor the number of a task`,
		"tasks: [{name: a, type: x, depends_on: [1.5]}]":                                                        `task "a" depends on 1.5, which is neither`,
		"tasks: [{name: a, type: x, depends_on: [null]}]":                                                       `task "a" depends on null, which is neither`,
		"tasks: [{name: a, type: x, depends_on: [7, 7]}]":                                                       `task "a" depends on task 7 twice`,
		"tasks: [{name: a, type: x, depends_on: [a, a]}]":                                                       `task "a" depends on "a" twice`,
		"tasks: [{name: a, type: x, depends_on: [" + strings.Join(many, ",") + "]}]":                            `task "a": it has 10001 dependencies, and may have 10000`,
		`tasks: [{name: a, type: x, kwargs: {k: "\0"}}]`:                                                        `task "a": PostgreSQL has no texts with a NUL`,
		`tasks: [{name: a, type: x, args: ["\0"]}]`:                                                             `task "a": PostgreSQL has no texts with a NUL`,
		"tasks: [{name: a, type: x, args: }]":                                                                   `task "a": args must be a list, not null`,
		"tasks: [{name: a, type: x, kwargs: null}]":                                                             `task "a": kwargs must be a mapping, not null`,
		"key: " + strings.Repeat("k", 12_000) + "\ntasks: [{name: a, type: x}]":                                 "the key has 12000 bytes, and may have 1000",
		`{"key": "\u0000", "tasks": [{"name": "a", "type": "x"}]}`:                                              "PostgreSQL has no texts with a NUL (key)",
		`{"name": "\u0000", "tasks": [{"name": "a", "type": "x"}]}`:                                             "PostgreSQL has no texts with a NUL (name)",
		`{"tasks": [{"name": "a", "type": "x"}, {"name": "b\u0000", "type": "x"}]}`:                             `task "b\x00": PostgreSQL has no texts with a NUL (name)`,
		`{"tasks": [{"name": "a\ud800", "type": "x"}]}`:                                                         "half a surrogate pair, which has no UTF-8 form (name)",
		`{"tasks": [{"name": "a", "type": "x", "kwargs": {"u": ["\udc00"]}}]}`:                                  `task "a": the text holds half a surrogate pair, which has no UTF-8 form (kwargs.u[0])`,
		`{"tasks": [{"name": "a", "type": "x", "args": [1e400000]}]}`:                                           `task "a": the number has more than 4300 digits (args[0])`,
		"tasks: [{name: a, type: x, args: [" + strings.Repeat("9", 4301) + "]}]":                                `task "a": the number has more than 4300 digits (args[0])`,
		"tasks: [{name: a, type: x, args: [.nan]}]":                                                             "infinite value has no form in JSON",
		"tasks: [{name: a, type: x, args: [.inf]}]":                                                             "infinite value has no form in JSON",
		"tasks: [{name: a, type: x, args: " + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "}]":        `task "a": lists and mappings are nested more than 500 deep (args[0]`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000):                                               "the graph is neither JSON nor YAML",
		`{"tasks": [{"name": "a", "type": "x", "type": "y"}]}`:                                                  `task "a": the key appears twice (type)`,
		"tasks: [{name: a, type: x,\n type: y}]":                                                                "line 2: the key appears twice, first in line 1",
		"{\"tasks\": [{\"name\": \"a\xff\", \"type\": \"x\"}]}":                                                 "the text is not UTF-8",
		"tasks: [{name: '', type: x}]":                                                                          "task 1 has no name",
		"tasks: [{name: a, type: ''}]":                                                                          `task "a" has no type`,
		"tasks: [{name: a, type: x, retries: 1.5}]":                                                             `task "a": retries must be a whole number, not 1.5`,
		"tasks: [{name: a, type: x, retries: 9223372036854775808}]":                                             `task "a": retries must be a whole number, not 9223372036854775808`,
		"tasks: [{name: a, type: x, deadline: '9999-12-31T23:00:00-12:00'}]":                                    `task "a": deadline "9999-12-31T23:00:00-12:00" is neither a date`,
		"tasks: [{name: a, type: x, deadline: '99999999h'}]":                                                    `task "a": deadline "99999999h" is neither a date`,
		"tasks: [{name: a, type: x, deadline: 36}]":                                                             `task "a": deadline must be a text, not a number`,
		"tasks: [{name: a, type: x, depends_on: [9223372036854775808]}]":                                        "which is neither a name in the graph nor the number of a task",
		"tasks: [{name: a, type: x, depends_on: b}]":                                                            `task "a": depends_on must be a list, not a text`,
		"tasks: [{name: \"b\\nc\", type: x}, {name: a, type: x, args: [\"{{ task.b\\nc.id }}\"]}]":              `task "a" asks for the number of "b\nc", on which it doesn't depend`,
		`{"tasks": [{"name": "b", "type": "x"}, {"name": "a", "type": "x", "args": ["\u007b{ task.b.id }}"]}]}`: `task "a" asks for the number of "b", on which it doesn't depend`,
		"tasks: [{name: a, type: x, depends_on: [b]}, {name: b, type: x, depends_on: [c, b]}, {name: c, type: x, depends_on: [d, a]}, {name: d, type: x}]": `the tasks depend on each other in a circle: "a" → "b" → "c" → "a"`,
	} {
		_, err := Parse([]byte(text), now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: got %v, want %s", text, err, want)
		}
	}
}

// In an extension, the name and the number of a task of the graph mean the same task.
func TestExtensionErrors(t *testing.T) {
	tasks := []graphs.Task{{ID: 5, Name: "a"}, {ID: 6, Name: "b"}}
	for text, want := range map[string]string{
		"tasks: [{name: c, type: x, depends_on: [a, 5]}]":                    `task "c" depends on task 5 twice`,
		"add_dependencies: {b: [5, a]}":                                      `add_dependencies: task "b" depends on "a" twice`,
		"remove_dependencies: {b: [5, {task: a, on: failed}]}":               `remove_dependencies: task "b" depends on "a" twice`,
		"add_dependencies: {b: [{task: 6, on: failed}]}":                     `add_dependencies: task "b" depends on itself and waits for task graph release, so it can't have a condition`,
		"add_dependencies: {b: [{task: b, on: resolved}]}":                   `add_dependencies: task "b" depends on itself and waits for task graph release, so it can't have a condition`,
		"add_dependencies: {c: [a]}":                                         `add_dependencies: the graph had no task "c"`,
		"add_dependencies: [a]":                                              "add_dependencies must be a mapping, not a list",
		"{add_dependencies: {b: [a]}, remove_dependencies: {b: [a], b: []}}": "the key appears twice",
	} {
		d, _, err := read([]byte(text))
		if err == nil {
			_, err = d.extension(tasks, now)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A long cycle is shown in part.
func TestLongCircle(t *testing.T) {
	const n = 1000
	tasks := make([]graphs.NewTask, n)
	for i := range tasks {
		tasks[i] = graphs.NewTask{Name: fmt.Sprint(i), DependsOn: []graphs.NewDependency{{Place: (i + 1) % n}}}
	}
	_, err := inOrder(tasks)
	if want := `"0" → "1" → "2" → "3" → "4" → "5" → … (989 more) → "995" → "996" → "997" → "998" → "999" → "0"`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// In any order of the text, each task comes after its dependencies and depends on the same names. One edge back is a
// cycle.
func TestOrder(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "tasks")
		at := rapid.Permutation(numbers(n)).Draw(t, "order") // positions in the text
		tasks := make([]graphs.NewTask, n)
		want := map[string][]string{}
		for i := range n {
			task := graphs.NewTask{Name: fmt.Sprint(i)}
			on := rapid.SliceOfNDistinct(rapid.IntRange(0, i), 0, i, rapid.ID[int]).Draw(t, "on") // i: itself
			for _, d := range on {
				task.DependsOn = append(task.DependsOn, graphs.NewDependency{Place: at[d]})
				want[task.Name] = append(want[task.Name], fmt.Sprint(d))
			}
			tasks[at[i]] = task
		}
		ordered, err := inOrder(tasks)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for i, task := range ordered {
			for _, d := range task.DependsOn {
				if d.Place > i {
					t.Fatalf("%s comes before %s", task.Name, ordered[d.Place].Name)
				}
				got[task.Name] = append(got[task.Name], ordered[d.Place].Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("dependencies (-want +got):\n%s", diff)
		}
		if n == 1 {
			return
		}
		first, second := rapid.IntRange(0, n-2).Draw(t, "first"), n-1
		if back := (graphs.NewDependency{Place: first}); !slices.Contains(ordered[second].DependsOn, back) {
			ordered[second].DependsOn = append(ordered[second].DependsOn, back)
		}
		ordered[first].DependsOn = append(ordered[first].DependsOn, graphs.NewDependency{Place: second})
		if _, err := inOrder(ordered); err == nil || !strings.Contains(err.Error(), "in a circle") {
			t.Fatalf("a circle gives %v", err)
		}
	})
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Any text is a graph or an error. A graph can be stored: names are unique and dependencies come first.
func FuzzParse(f *testing.F) {
	f.Add([]byte("tasks: [{name: a, type: x, depends_on: [a, 3]}]"))
	f.Add([]byte(`{"tasks": [{"name": "a", "type": "x", "kwargs": {"a": [1e400]}}, {"name": "b", "type": "x", "depends_on": ["a"]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := Parse(text, now)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for i, task := range g.Tasks {
			if seen[task.Name] || task.Type == "" {
				t.Errorf("%q: task %d is %+v", text, i, task)
			}
			seen[task.Name] = true
			for _, d := range task.DependsOn {
				if d.Place > i {
					t.Errorf("%q: task %d depends on %d", text, i, d.Place)
				}
			}
			for _, arguments := range []json.RawMessage{task.Arguments.Args, task.Arguments.Kwargs} {
				if len(arguments) > 0 && !json.Valid(arguments) {
					t.Errorf("%q: arguments %s", text, arguments)
				}
			}
		}
	})
}
