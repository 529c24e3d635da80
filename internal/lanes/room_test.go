package lanes

import "testing"

// Room is the sum over lanes of the slots that neither messages nor backlogs need. A full lane takes nothing from
// another.
func TestRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		lanes []State
		want  int
	}{
		"empty":               {[]State{{Slots: 4}, {Slots: 2}}, 6},
		"held":                {[]State{{Slots: 4, Held: 1}, {Slots: 2, Held: 2}}, 3},
		"waiting":             {[]State{{Slots: 4, Held: 1, FirstTries: 2}, {Slots: 2}}, 3},
		"timed out":           {[]State{{Slots: 4}, {Slots: 2, TimedOut: 1}}, 5},
		"more than its slots": {[]State{{Slots: 4}, {Slots: 2, Held: 2, TimedOut: 10, FirstTries: 10}}, 4},
		"full":                {[]State{{Slots: 4, Held: 4}, {Slots: 2, Held: 5}}, 0},
	} {
		sizes := make([]int, len(tc.lanes))
		for i, l := range tc.lanes {
			sizes[i] = l.Slots
		}
		if got := Room(tc.lanes, sizes); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
