package status

import (
	"strings"
	"testing"

	"swh-scheduler/internal/pytext"
)

// Names from strangers and texts of the broker can't steer a terminal or break a table.
func TestTablesShowNoControls(t *testing.T) {
	t.Parallel()
	const odd = "a\x1b[2J\tb\nc"
	for name, table := range map[string]string{
		"queues":            QueueTable(pytext.Terminal{}, []Queue{{Queue: odd, Lane: odd, Groups: map[string]int{odd: 1}}}),
		"a queue's problem": QueueTable(pytext.Terminal{}, []Queue{{Queue: odd, Problem: odd}}),
		"lanes":             LaneTable(pytext.Terminal{}, []Lane{{TaskType: odd, Lane: odd}}),
		"groups":            GroupTable(pytext.Terminal{}, []Group{{Queue: odd, Group: odd}}),
		"hosters":           HosterTable(pytext.Terminal{}, []Hoster{{Hoster: odd}}),
	} {
		if lines := strings.Split(strings.TrimRight(table, "\n"), "\n"); len(lines) != 2 || strings.ContainsAny(table, "\x1b\t") {
			t.Errorf("%s: %q", name, table)
		}
	}
}
