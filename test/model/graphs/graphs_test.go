package graphs

import (
	"os"
	"testing"

	"swh-scheduler/test/model/check"
)

var (
	// chain is three tasks, one after the other, and a report on any end of the last.
	chain = Graph{Needs: [tasks][tasks]Condition{1: {Success}, 2: {0, Success}, 3: {0, 0, End}}, Retries: [tasks]bool{true}}
	// diamond has a task that needs the success of one and the failure of another.
	diamond = Graph{Needs: [tasks][tasks]Condition{1: {Success}, 2: {End}, 3: {0, Success, Failure}}, Deadline: [tasks]bool{3: true}}
	// cleanup has a task that runs if the one before could not.
	cleanup = Graph{Needs: [tasks][tasks]Condition{1: {Success}, 2: {0, Failure}, 3: {0, Success, End}}, Deadline: [tasks]bool{2: true}}
	// join has a task that waits for three.
	join = Graph{Needs: [tasks][tasks]Condition{3: {Success, End, Success}}}
	// grown is extended by two tasks, for which its last one then waits.
	grown = Graph{Needs: [tasks][tasks]Condition{1: {Success}, 2: {0, Success}, 3: {Success, 0, End}}, Added: [tasks]bool{1: true, 2: true}}
)

var graphs = map[string]Graph{"chain": chain, "diamond": diamond, "cleanup": cleanup, "join": join, "grown": grown}

// In CI one thing of each happens, by `make model` two runs fail.
var few, all = Faults{Failures: 1, Deadlines: 1, Cancels: 1, Extensions: 1, Retries: 1, Respawns: 1},
	Faults{Failures: 2, Deadlines: 1, Cancels: 1, Extensions: 1, Retries: 1, Respawns: 1}

func TestRight(t *testing.T) {
	for name, g := range graphs {
		check.Holds(t, name, Model(g, few, Rules{}))
	}
}

func TestLong(t *testing.T) {
	if os.Getenv("SWH_MODEL") != "long" {
		t.Skip("by make model")
	}
	for name, g := range graphs {
		check.Holds(t, name+", two fail", Model(g, all, Rules{}))
	}
}

const (
	early  = "no task runs before what it needs"
	late   = "no task runs after its deadline"
	again  = "what is cancelled is not tried again"
	added  = "nothing is added to a cancelled graph"
	asSaid = "all stand as their dependencies say"
)

func TestMistakes(t *testing.T) {
	var table []check.Mistake[State]
	for _, m := range []struct {
		name   string
		graph  Graph
		rules  Rules
		broken string
		steps  int
	}{
		{"a drain between the batches of a retry", chain, Rules{RetryInBatches: true}, early, 4},
		{"a respawn doesn't reach its end before tasks are released", cleanup, Rules{RespawnEarly: true}, early, 7},
		{"a cancel doesn't wait for an extension", chain, Rules{CancelUnlocked: true}, added, 3},
		{"the watch of a task is written without a lock", join, Rules{UnlockedWatch: true}, asSaid, 9},
		{"what needs success runs after any end", diamond, Rules{AnyEnd: true}, early, 4},
		{"a failure is noted only if it is watched", diamond, Rules{FailureUnnoted: true}, asSaid, 5},
		{"deadlines are ignored", cleanup, Rules{NoDeadline: true}, late, 7},
		{"a run that fails after a cancel is retried", chain, Rules{CancelRetries: true}, again, 5},
		{"a task is skipped before all that it needs has ended", diamond, Rules{SkipsAtOnce: true}, asSaid, 9},
		{"a task that gets dependencies is not settled", grown, Rules{ExtensionUnlooked: true}, asSaid, 10},
	} {
		table = append(table, check.Mistake[State]{Name: m.name, Model: Model(m.graph, few, m.rules), Broken: m.broken, Steps: m.steps})
	}
	check.Distinguishes(t, table)
}
