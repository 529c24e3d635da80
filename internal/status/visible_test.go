package status

import (
	"strings"
	"testing"

	"swh-scheduler/internal/pytext"
)

// Names from strangers and texts of the broker can't steer a terminal or break a table.
func TestTablesShowNoControls(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[2J\tb\nc"
	for name, table := range map[string]string{
		"queues":            QueueTable(pytext.Terminal{}, []Queue{{Queue: hostile, Lane: hostile, Groups: map[string]int{hostile: 1}}}),
		"a queue's problem": QueueTable(pytext.Terminal{}, []Queue{{Queue: hostile, Problem: hostile}}),
		"lanes":             LaneTable(pytext.Terminal{}, []Lane{{TaskType: hostile, Lane: hostile}}),
		"groups":            GroupTable(pytext.Terminal{}, []Group{{Queue: hostile, Group: hostile}}),
		"hosters":           HosterTable(pytext.Terminal{}, []Hoster{{Hoster: hostile}}),
	} {
		if lines := strings.Split(strings.TrimRight(table, "\n"), "\n"); len(lines) != 2 || strings.ContainsAny(table, "\x1b\t") {
			t.Errorf("%s: %q", name, table)
		}
	}
}
