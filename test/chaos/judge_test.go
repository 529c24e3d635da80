package chaos

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"
)

// judge finds violations: work that is not done, has two claims, was given up while its message waited, or was lost
// by the database. It counts repeats of a message. It excuses losses by killed workers and deleted topics, within
// their bounds.
func TestJudge(t *testing.T) {
	t.Parallel()
	at := 1000.0
	note := func(what, key, id, root string, redelivered bool) string {
		at++
		return fmt.Sprintf(`{"what": %q, "key": %q, "id": %q, "root": %q, "queue": "q", "redelivered": %t, "at": %f}`, what, key, id, root, redelivered, at)
	}
	begun := func(key, id string) string { return note("begin", key, id, id, false) }
	ended := func(key, id string) string { return note("end", key, id, id, false) }
	const a, visit = "a", "https://a"
	for name, tc := range map[string]struct {
		key     string
		notDone bool
		gone    bool // from the database
		notes   []string
		added   []string
		harmed  harmed
		wrong   string // a part of the only violation
		open    string // a part of the only text about open work

		repeats, redelivered, lost, again, visits int
	}{
		"all is well":               {notes: []string{begun(a, "1"), ended(a, "1")}, added: []string{a}},
		"never run":                 {notDone: true, open: "a was never run"},
		"not known":                 {notDone: true, notes: []string{begun(a, "1"), ended(a, "1")}, open: "not known to be done"},
		"not begun again":           {notDone: true, notes: []string{begun(a, "1")}, harmed: harmed{processes: 1}, open: "not begun again", lost: 1},
		"two pieces":                {notes: []string{begun(a, "1"), ended(a, "1"), begun(a, "2"), ended(a, "2")}, wrong: "1 pieces of work were done, and claimed again", again: 1},
		"an end lost with a worker": {notes: []string{begun(a, "1"), ended(a, "1"), begun(a, "2"), ended(a, "2")}, harmed: harmed{processes: 1}, again: 1},
		"a visit lost with a topic": {key: visit, notes: []string{begun(visit, "1"), ended(visit, "1"), begun(visit, "2"), ended(visit, "2")},
			harmed: harmed{journal: []span{{time.Unix(0, 0), time.Unix(2000, 0)}}}, visits: 1},
		"a visit lost later": {key: visit, notes: []string{begun(visit, "1"), ended(visit, "1"), begun(visit, "2"), ended(visit, "2")},
			harmed: harmed{journal: []span{{time.Unix(0, 0), time.Unix(1000, 0)}}}, wrong: "claimed again", again: 1},
		"given up, then run": {notes: []string{begun(a, "1"), begun(a, "2"), ended(a, "2"), note("begin", a, "1", "1", true), ended(a, "1")}, harmed: harmed{processes: 1}, wrong: "given up while its message waited", redelivered: 1, again: 1},
		"the next lane":      {notes: []string{begun(a, "1"), note("begin", a, "2", "1", false), note("end", a, "2", "1", false)}},
		"sent again":         {notes: []string{begun(a, "1"), begun(a, "1"), ended(a, "1")}, repeats: 1},
		"delivered again":    {notes: []string{begun(a, "1"), note("begin", a, "1", "1", true), ended(a, "1")}, redelivered: 1},
		"lost with a worker": {notes: []string{begun(a, "1"), begun(a, "2"), ended(a, "2")}, harmed: harmed{processes: 1}, lost: 1},
		"lost by nobody":     {notes: []string{begun(a, "1"), begun(a, "2"), ended(a, "2")}, wrong: "1 pieces of work began and did not end", lost: 1},
		"a lost commit":      {notes: []string{begun(a, "1"), ended(a, "1")}, added: []string{"b"}, wrong: "b was added and is not"},
		"a row is gone":      {gone: true, notes: []string{begun(a, "1"), ended(a, "1")}, wrong: "a was run and is not in"},
	} {
		done, err := readNotes([]byte(strings.Join(tc.notes, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		all := []work{{Key: cmp.Or(tc.key, a), Done: !tc.notDone}}
		if tc.gone {
			all = nil
		}
		v := judge(all, done, tc.added, tc.harmed)
		for _, said := range []struct {
			what string
			got  []string
			want string
		}{{"wrong", v.wrong, tc.wrong}, {"open", v.open, tc.open}} {
			if len(said.got) > 1 || !strings.Contains(strings.Join(said.got, ""), said.want) || said.want == "" && len(said.got) > 0 {
				t.Errorf("%s: %s is %q, want %q", name, said.what, said.got, said.want)
			}
		}
		if v.repeats != tc.repeats || v.redelivered != tc.redelivered || v.lost != tc.lost || v.again != tc.again || v.visits != tc.visits {
			t.Errorf("%s: %d sent again, %d delivered again, %d lost, %d and %d done again", name, v.repeats, v.redelivered, v.lost, v.again, v.visits)
		}
	}
}
