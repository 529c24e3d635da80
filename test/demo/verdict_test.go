package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) *time.Time {
	t := testTime.Add(time.Duration(seconds) * time.Second)
	return &t
}

// goodRun is the evidence of a run in which all went well: one repository of
// each kind and a save-code-now request.
func goodRun() evidence {
	e := evidence{
		Ledger:    newLedger(),
		Saved:     saved{URL: "file:///wanted.git", Asked: *at(1), Waiting: 3},
		Published: map[string]int{listTask: 1, loadTask: 0, saveQueue: 1},
		QueuePeak: 50, QueueLimit: 50,
		Stopped: []stopped{{Name: "start-runner", Took: time.Second}},
	}
	run := func(id, queue, subject string, second int) {
		e.Executions = append(e.Executions, execution{ID: id, Queue: queue, Subject: subject, Started: *at(second)})
	}
	run("list", listTask, "/repositories", 0)
	run("save", saveQueue, e.Saved.URL, 2)
	first := observation{At: *at(10), Visits: []visitRow{
		{URL: e.Saved.URL, LastVisit: at(3), Status: "successful", Snapshot: []byte("wanted")},
	}}
	second := observation{At: *at(20), Visits: first.Visits}
	for i, k := range []kind{plain, fork, growing, undated, empty, broken, vanishing} {
		r := repository{Path: fmt.Sprintf("/repositories/%d.git", i), Kind: k}
		e.Repositories = append(e.Repositories, r)
		visit := visitRow{URL: r.URL(), LastScheduled: at(0), LastVisit: at(4), Status: k.expectedStatus(), Snapshot: []byte("old")}
		first.Visits = append(first.Visits, visit)
		run(fmt.Sprint("first", i), loadTask, r.URL(), 4)
		if k == growing {
			visit.LastScheduled, visit.LastVisit, visit.Snapshot = at(11), at(12), []byte("new")
			run(fmt.Sprint("second", i), loadTask, r.URL(), 12)
		}
		second.Visits = append(second.Visits, visit)
	}
	e.Published[loadTask] = len(e.Repositories) + 1
	second.Listed = len(e.Repositories)
	second.Runs = []runRow{
		{ID: "list", Type: "list-demo", Status: "eventful"},
		{ID: "save", Type: "load-git", Priority: "high", Status: "eventful", Ended: at(4)},
	}
	e.Ledger.add(first)
	e.Ledger.add(second)
	return e
}

// Each promise of the demo is checked: breaking one fails its check, and only
// what is broken is reported.
func TestVerdict(t *testing.T) {
	t.Parallel()
	lastVisit := func(e *evidence, k kind) *visitRow {
		for i := range e.Ledger.last.Visits {
			v := &e.Ledger.last.Visits[i]
			for _, r := range e.Repositories {
				if r.Kind == k && r.URL() == v.URL {
					return v
				}
			}
		}
		t.Fatalf("no %s repository", k)
		return nil
	}
	for _, test := range []struct {
		name  string
		spoil func(*evidence)
		want  string // in what is reported; "" if all is well
	}{
		{"all well", func(*evidence) {}, ""},
		{"one not listed", func(e *evidence) { e.Ledger.last.Listed-- }, "6 origins listed, want 7"},
		{"one never visited", func(e *evidence) { delete(e.Ledger.results, e.Repositories[0].URL()) }, "no visit of"},
		{"wrong outcome", func(e *evidence) {
			e.Ledger.results[e.Repositories[5].URL()][0].Status = "successful"
		}, "the broken file:///repositories/5.git: successful, want failed"},
		{"news not found", func(e *evidence) {
			results := e.Ledger.results[e.Repositories[2].URL()]
			results[1].Snapshot = results[0].Snapshot
		}, "new snapshot not seen"},
		{"save-code-now not scheduled", func(e *evidence) { e.Ledger.last.Runs = e.Ledger.last.Runs[:1] }, "not scheduled"},
		{"save-code-now failed", func(e *evidence) { e.Ledger.last.Runs[1].Status = "failed" }, "is failed, want eventful"},
		{"save-code-now overtook nothing", func(e *evidence) { e.Executions[1].Started = *at(30) }, "overtook no visit"},
		{"message left in the outbox", func(e *evidence) { e.Ledger.last.Outbox = 1 }, "1 messages are still in the outbox"},
		{"run left open", func(e *evidence) { e.Ledger.last.Runs[0].Status = "started" }, "is left started"},
		{"claim without message", func(e *evidence) {
			v := *lastVisit(e, plain)
			v.LastScheduled = at(15)
			e.Ledger.add(observation{
				At: *at(30), Listed: e.Ledger.last.Listed, Runs: e.Ledger.last.Runs, Visits: []visitRow{v},
			})
		}, "scheduled 2 times, run 1 times"},
		{"message that no worker ran", func(e *evidence) { e.Published[loadTask]++ }, "9 messages published, 8 tasks run"},
		{"message run twice", func(e *evidence) { e.Executions = append(e.Executions, e.Executions[0]) }, "the task list"},
		{"visit without a reason", func(e *evidence) {
			e.Executions = append(e.Executions, execution{ID: "more", Queue: loadTask, Subject: e.Repositories[1].URL()})
		}, "visited 2 times, with reason for 1"},
		{"queue overfilled", func(e *evidence) { e.QueuePeak = 51 }, "51 messages, limit 50"},
		{"daemon killed", func(e *evidence) { e.Stopped[0].Err = errors.New("signal: killed") }, "start-runner: signal: killed after 1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := goodRun()
			test.spoil(&e)
			got := strings.Join(failed(verdict(e)), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("verdict:\n%s\nwant %q in it", got, test.want)
			}
		})
	}
}

// Latency runs from a claim to the moment its result was seen in the database.
func TestLatencies(t *testing.T) {
	t.Parallel()
	latencies := goodRun().Ledger.latencies()
	if len(latencies) != 8 || latencies[0] != 9*time.Second || latencies[7] != 10*time.Second {
		t.Errorf("latencies = %v, want one of 9 s (the second visit) and seven of 10 s", latencies)
	}
}

// Percentiles are nearest-rank: always a value that was measured.
func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, test := range []struct {
		values []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, 0},
		{hundred[:1], 50, 1},
		{hundred[:1], 99, 1},
		{hundred[:3], 50, 2},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		if got := percentile(test.values, test.p); got != test.want {
			t.Errorf("percentile %d of %d values = %d, want %d", test.p, len(test.values), got, test.want)
		}
	}
}

// A job that stands still is blamed on the process after the last step made.
func TestWaitsFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(*evidence)
		want  string
	}{
		{"no listing sent", func(e *evidence) { e.Ledger.last.Runs = nil }, runnerProcess},
		{"listing not run", func(e *evidence) { e.Executions = e.Executions[1:] }, loaderProcess},
		{"request not sent", func(e *evidence) { e.Ledger.last.Runs = e.Ledger.last.Runs[:1] }, priorityProcess},
		{"request not run", func(e *evidence) { e.Executions = append(e.Executions[:1:1], e.Executions[2:]...) }, saverProcess},
		{"visit not run", func(e *evidence) { e.Executions = e.Executions[:len(e.Executions)-1] }, loaderProcess},
		{"no result of a visit", func(e *evidence) { delete(e.Ledger.results, e.Repositories[0].URL()) }, journalProcess},
		{"run left open", func(e *evidence) { e.Ledger.last.Runs[0].Status = "started" }, listenerProcess},
		{"nothing scheduled", func(*evidence) {}, recurrentProcess},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := goodRun()
			test.spoil(&e)
			if got := waitsFor(e.Ledger, e.Executions, e.Saved); got != test.want {
				t.Errorf("waits for %s, want %s", got, test.want)
			}
		})
	}
}
