package listener

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// A life is the events of one run, in the order in which they happened.
type life []event

// drawLife returns random events of a run on its workers. The Python scheduler ignores some (a revoked run), so
// the comparison leaves those out.
func drawLife(t *rapid.T, uuid string, forPeer bool) life {
	now := 1700000000.0
	next := func(kind string) event {
		now += 0.25
		return taskEvent(kind, uuid, now)
	}
	var l life
	worker := func() string { return "worker" + fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "worker")) + "@host" }
	l = append(l, next("task-received").with("name", "swh.test.Good"))
	if rapid.Bool().Draw(t, "started") {
		l = append(l, next("task-started").with("hostname", worker()))
		for range rapid.IntRange(0, 2).Draw(t, "retries") {
			l = append(l, next("task-retried").with("exception", "Retry()").with("traceback", "Traceback\nRetry: in 180s"),
				next("task-started").with("hostname", worker()))
		}
	}
	result := func(value any) life {
		return append(l, next("task-result").with("result", value),
			next("task-succeeded").with("result", "{}").with("runtime", 12.5))
	}
	ends := []func() life{
		func() life { return l }, // still running
		func() life { return result(map[string]any{"status": "success", "eventful": true}) },
		func() life { return result(map[string]any{"status": "success"}) },
		func() life { return result(map[string]any{"status": "eventful", "snapshot_id": "12ab"}) },
		func() life { return result(map[string]any{"status": "uneventful"}) },
		func() life { return result(map[string]any{"status": "failed", "error": "\x00no such repository\x00"}) },
		func() life { return result(map[string]any{"status": "failed"}) },
		func() life { return result(map[string]any{"status": "permfailed", "error": "x"}) },
		func() life { return result(map[string]any{"status": "lost"}) },
		func() life {
			return result(rapid.SampledFrom([]any{nil, 0, 1.5, "", "x", []any{}, []any{0}, map[string]any{}, true}).Draw(t, "result"))
		},
		func() life {
			return append(l, next("task-failed").with("exception", "E()").with("traceback", "Traceback\n  é\nE: no 'x'\n \n"))
		},
		func() life { return append(l, next("task-failed").with("exception", "NotRegistered()")) },
		// From here on not for the Python scheduler.
		func() life {
			return append(l, next("task-failed").with("exception", "R()").with("traceback", "Traceback\nReject: y"),
				next("task-rejected").with("requeue", false))
		},
		func() life {
			l = append(l, next("task-rejected").with("requeue", true), next("task-started").with("hostname", worker()))
			return result(map[string]any{"status": "eventful"})
		},
		func() life { return append(l, next("task-revoked").with("terminated", false).with("expired", true)) },
	}
	last := len(ends) - 1
	if forPeer {
		last -= 3
	}
	return ends[rapid.IntRange(0, last).Draw(t, "end")]()
}

// interleave mixes the events of several runs, each run's in their order.
func interleave(t *rapid.T, lives []life) []event {
	var turns []int
	for i, l := range lives {
		turns = append(turns, slices.Repeat([]int{i}, len(l))...)
	}
	var all []event
	at := make([]int, len(lives))
	for _, i := range rapid.Permutation(turns).Draw(t, "turns") {
		all = append(all, lives[i][at[i]])
		at[i]++
	}
	return all
}

// drawTasks makes the same tasks, with a run each, in each database, or several times in one under different
// prefixes.
func drawTasks(t *testing.T, rt *rapid.T, n int, make func(taskType, policy string, i int)) {
	for i := range n {
		make(rapid.SampledFrom([]string{"good", "bare"}).Draw(rt, "type"),
			rapid.SampledFrom([]string{"recurring", "oneshot"}).Draw(rt, "policy"), i)
	}
}

// Late, repeated and reordered events in batches of any size leave the state of the ordered stream without
// repeats. A task's second run is scheduled after its first has ended, but repeats of the first run's events may
// follow.
func TestEveryOrderGivesTheSameState(t *testing.T) {
	t.Parallel()
	pg := ownDatabase(t)
	l := newTestListener(t, nil, openStore(t, pg.dsn))
	iteration := 0
	seed.Check(t, func(rt *rapid.T) {
		iteration++
		ordered, shuffled := fmt.Sprintf("ordered%d", iteration), fmt.Sprintf("shuffled%d", iteration)
		tasks := map[string][]int64{}
		n := rapid.IntRange(1, 4).Draw(rt, "tasks")
		drawTasks(t, rt, n, func(taskType, policy string, i int) {
			for _, side := range []string{ordered, shuffled} {
				tasks[side] = append(tasks[side], pg.addTask(t, taskType, policy, name(side, i)))
			}
		})
		var late []event // of rounds before
		for round := range 2 {
			lives := make([]life, n)
			for i := range lives {
				lives[i] = drawLife(rt, name("", round*n+i), false)
			}
			stream := interleave(rt, lives)
			for _, e := range stream {
				feed(t, l, message(t, of(ordered, e)))
			}
			again := append(slices.Clone(late), stream...)
			again = append(stream, rapid.SliceOf(rapid.SampledFrom(again)).Draw(rt, "repeats")...)
			again = rapid.Permutation(again).Draw(rt, "order")
			for len(again) > 0 {
				size := rapid.IntRange(1, len(again)).Draw(rt, "batch")
				var bodies [][]byte
				for _, e := range again[:size] {
					bodies = append(bodies, message(t, of(shuffled, e)))
				}
				feed(t, l, bodies...)
				again = again[size:]
			}
			late = append(late, stream...)
			if round == 0 {
				for side, ids := range tasks {
					for i, id := range ids {
						pg.addRun(t, id, name(side, n+i))
					}
				}
			}
		}
		want, got := pg.state(t, ordered), pg.state(t, shuffled)
		for i := range want {
			want[i] = want[i][len(ordered):]
			got[i] = got[i][len(shuffled):]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("state after the ordered stream (-), after the other (+):\n%s", diff)
		}
	})
}

// of is an event with the run of one side.
func of(side string, e event) event {
	copied := event{}
	for k, v := range e {
		copied[k] = v
	}
	copied["uuid"] = side + e["uuid"].(string)
	return copied
}

// peer is the Python scheduler's own code, applying messages to its own database.
type peer struct{ *testenv.Script }

func startPeer(t *testing.T, dsn string) peer {
	t.Helper()
	return peer{testenv.StartScript(t, nil, "testdata/peer_listener.py", dsn)}
}

func (p peer) feed(t *rapid.T, body []byte) {
	t.Helper()
	p.Say(t, string(body))
}

// For a well-formed stream, in order and without repeats, the database is as the Python scheduler's listener
// leaves it.
func TestSameStateAsPeer(t *testing.T) {
	t.Parallel()
	ours, theirs := ownDatabase(t), newDatabase(t, testenv.PythonDatabase(t))
	l := newTestListener(t, nil, openStore(t, ours.dsn))
	p := startPeer(t, theirs.dsn)
	iteration := 0
	seed.Check(t, func(rt *rapid.T) {
		iteration++
		prefix := fmt.Sprintf("run%d", iteration)
		n := rapid.IntRange(1, 4).Draw(rt, "tasks")
		var tasks [][2]int64
		drawTasks(t, rt, n, func(taskType, policy string, i int) {
			id := name(prefix, i)
			tasks = append(tasks, [2]int64{ours.addTask(t, taskType, policy, id), theirs.addTask(t, taskType, policy, id)})
		})
		for round := range 2 {
			lives := make([]life, n)
			for i := range lives {
				lives[i] = drawLife(rt, name(prefix, round*n+i), true)
				if round > 0 {
					ours.addRun(t, tasks[i][0], name(prefix, n+i))
					theirs.addRun(t, tasks[i][1], name(prefix, n+i))
				}
			}
			for _, e := range interleave(rt, lives) {
				body := message(t, e)
				feed(t, l, body)
				p.feed(rt, body)
			}
		}
		if diff := cmp.Diff(theirs.state(t, prefix+"-"), ours.state(t, prefix+"-")); diff != "" {
			rt.Fatalf("state (-peer +ours):\n%s", diff)
		}
	})
}
