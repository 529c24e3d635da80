package runner

import (
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// While a snapshot is held for long, PostgreSQL keeps the index entries of tasks that were claimed since, and a look for
// ready tasks of a type reads them all. So a runner looks again from where it found no task before. Tasks that anyone
// writes with an earlier date are found as the types get a whole look in turn.

const (
	// wholeLooks is the time that the whole looks of a pass may take. It is a wholeLooksPart-th of the time since the pass
	// before, if that is more.
	wholeLooks     = 5 * time.Millisecond
	wholeLooksPart = 20
)

// lookout is from when on a runner looks for ready tasks of each type. Its zero value looks at all of them.
type lookout struct {
	from  map[string]time.Time // by type; earlier tasks were not ready, or are gone
	order []string             // the types, as the last pass that claimed read them
	turn  int                  // in order: the type whose whole look is next
	cost  time.Duration        // of a whole look, estimated
	last  time.Time            // the last pass
}

// look returns from when on a pass looks for each type. Types without an element get a whole look.
func (l *lookout) look(now time.Time) map[string]time.Time {
	within := max(wholeLooks, now.Sub(l.last)/wholeLooksPart)
	l.last = now
	n := len(l.order)
	if l.cost > 0 {
		n = min(n, max(1, int(within/l.cost)))
	}
	from := make(map[string]time.Time, len(l.from))
	for i, name := range l.order {
		if at, ok := l.from[name]; ok && (i-l.turn+len(l.order))%len(l.order) >= n {
			from[name] = at
		}
	}
	if len(l.order) > 0 {
		l.turn = (l.turn + n) % len(l.order)
	}
	return from
}

// emptied records that claims of the last pass left no ready task of a type.
func (l *lookout) emptied(name string) { l.from[name] = l.last.Add(-ledger.LateTasks) }

// looked records what a look found: all types, and whether each was ready.
func (l *lookout) looked(now time.Time, took time.Duration, from map[string]time.Time, all []model.TaskType, ready map[string]bool) {
	if whole := len(l.order) - len(from); whole > 0 {
		l.cost = (l.cost + took/time.Duration(whole)) / 2
	}
	if all == nil { // nothing was ready
		for _, name := range l.order {
			l.from[name] = now.Add(-ledger.LateTasks)
		}
		return
	}
	next := make(map[string]time.Time, len(all))
	l.order = l.order[:0]
	for _, tt := range all {
		l.order = append(l.order, tt.Type)
		at, partial := from[tt.Type]
		switch {
		case !ready[tt.Type]:
			next[tt.Type] = now.Add(-ledger.LateTasks)
		case partial:
			next[tt.Type] = at
		}
	}
	l.from = next
}
