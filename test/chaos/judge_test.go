package chaos

import (
	"fmt"
	"strings"
	"testing"
)

// What must not be is found: work that was never run, is not known to be done, was sent as
// two pieces, or was lost by the database. What the same message's repeats are is counted,
// and what a killed worker lost is excused, with what waits for it.
func TestJudge(t *testing.T) {
	t.Parallel()
	note := func(what, key, id, root string, redelivered bool) string {
		return fmt.Sprintf(`{"what": %q, "key": %q, "id": %q, "root": %q, "queue": "q", "redelivered": %t}`, what, key, id, root, redelivered)
	}
	begun := func(key, id string) string { return note("begin", key, id, id, false) }
	ended := func(key, id string) string { return note("end", key, id, id, false) }
	done, waits := work{Key: "a", Done: true}, work{Key: "b", Graph: 1}
	for name, tc := range map[string]struct {
		all   []work
		notes []string
		added []string
		wrong string // a part of the only complaint; empty: none

		repeats, redelivered, lost int
	}{
		"all is well":        {all: []work{done}, notes: []string{begun("a", "1"), ended("a", "1")}, added: []string{"a"}},
		"never run":          {all: []work{done}, wrong: "a was never run"},
		"not known":          {all: []work{{Key: "a"}}, notes: []string{begun("a", "1"), ended("a", "1")}, wrong: "not known to be done"},
		"two pieces":         {all: []work{done}, notes: []string{begun("a", "1"), begun("a", "2"), ended("a", "2")}, wrong: "as 2 pieces"},
		"the next lane":      {all: []work{done}, notes: []string{begun("a", "1"), note("begin", "a", "2", "1", false), note("end", "a", "2", "1", false)}},
		"sent again":         {all: []work{done}, notes: []string{begun("a", "1"), begun("a", "1"), ended("a", "1")}, repeats: 1},
		"delivered again":    {all: []work{done}, notes: []string{begun("a", "1"), note("begin", "a", "1", "1", true), ended("a", "1")}, redelivered: 1},
		"lost with a worker": {all: []work{{Key: "a", Graph: 1}, waits}, notes: []string{begun("a", "1")}, lost: 1},
		"a graph is stuck":   {all: []work{{Key: "a", Graph: 1, Done: true}, waits}, notes: []string{begun("a", "1"), ended("a", "1")}, wrong: "b was never run"},
		"a lost commit":      {all: []work{done}, notes: []string{begun("a", "1"), ended("a", "1")}, added: []string{"b"}, wrong: "b was added and is not"},
		"a row is gone":      {notes: []string{begun("a", "1"), ended("a", "1")}, wrong: "a was run and is not in"},
	} {
		executed, err := readNotes([]byte(strings.Join(tc.notes, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		v := judge(tc.all, executed, tc.added)
		if len(v.wrong) > 1 || !strings.Contains(strings.Join(v.wrong, ""), tc.wrong) || tc.wrong == "" && len(v.wrong) > 0 {
			t.Errorf("%s: %q, want %q", name, v.wrong, tc.wrong)
		}
		if v.repeats != tc.repeats || v.redelivered != tc.redelivered || v.lost != tc.lost {
			t.Errorf("%s: %d sent again, %d delivered again, %d lost", name, v.repeats, v.redelivered, v.lost)
		}
	}
}
