package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/swh"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return testTime.Add(time.Duration(seconds) * time.Second) }

// goodRun is the evidence of a run in which all went well: one repository of each kind in both
// forges, and save code now. The small forge's visits were all claimed before those of the large one.
func goodRun() *evidence {
	e := &evidence{Claims: map[string][]time.Time{}, Stored: map[string][]swh.Visit{}}
	e.Known, e.Runs = map[string]swh.Known{}, []taskRun{{Status: "eventful"}, {Priority: "high", Status: "eventful"}}
	visit := func(o origin, second int, tip string) {
		snapshot := ""
		if o.Status == "full" {
			snapshot = "snapshot of " + tip
		}
		e.Stored[o.URL] = append(e.Stored[o.URL], swh.Visit{Origin: o.URL, Type: o.Type, Date: at(second), Status: o.Status, Snapshot: snapshot, Tip: tip})
		status := strings.Replace(o.Status, "full", "successful", 1)
		e.Known[o.URL] = swh.Known{Status: status, Snapshot: snapshot}
	}
	for i, forge := range []string{small, large} {
		for _, k := range []kind{plain, fork, growing, slow, empty, broken, vanishing} {
			o := origin{URL: forge + "/" + string(k), Type: "git", Forge: forge, Kind: k, Status: "full", Tip: "tip"}
			switch k {
			case broken:
				o.Status, o.Tip = "failed", ""
			case vanishing:
				o.Status, o.Tip = "not_found", ""
			case growing:
				o.Tip = "old"
				visit(o, 10+i, "old")
				o.Tip = "new"
				e.Claims[o.URL] = append(e.Claims[o.URL], at(i), at(30))
				visit(o, 31, "new")
				e.Origins = append(e.Origins, o)
				continue
			}
			e.Claims[o.URL] = append(e.Claims[o.URL], at(i))
			visit(o, 10+i, o.Tip)
			e.Origins = append(e.Origins, o)
		}
	}
	saved := origin{URL: "small/wanted", Type: "git", Forge: small, Kind: wanted, Status: "full", Tip: "tip"}
	visit(saved, 5, "tip")
	e.Origins = append(e.Origins, saved)
	e.Asked, e.Expected, e.Faults = at(4), 1, []fault{{Name: connections, At: at(20)}}
	e.Queues = map[string]queue{expressQueue: {Peak: expressSlots, Published: 2}}
	e.Executions = executions{Received: 2, Ended: map[string][]time.Time{"a": {at(10)}, "b": {at(19), at(21)}}}
	e.Stopped = map[string]error{"rpc-serve": nil}
	e.Listed = len(e.Origins)
	return e
}

// Each check fails when its condition is violated, and no other check does.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(*evidence)
		want  string // in what is reported; "" if all is well
	}{
		{"all well", func(*evidence) {}, ""},
		{"one not listed", func(e *evidence) { e.Listed-- }, "14 origins listed, want 15"},
		{"one never visited", func(e *evidence) { delete(e.Stored, "small/plain") }, "no visit of small/plain"},
		{"wrong outcome", func(e *evidence) { e.Stored["small/plain"][0].Status = "failed" }, "the last visit of the plain small/plain: failed tip, want full tip"},
		{"not all archived", func(e *evidence) { e.Stored["small/plain"][0].Tip = "old" }, "the last visit of the plain small/plain: full old, want full tip"},
		{"another snapshot known", func(e *evidence) { e.Stored["small/plain"][0].Snapshot = "other" }, "small/plain: stored is full other, known successful snapshot"},
		{"a visit known without one stored", func(e *evidence) { e.Known["x"] = swh.Known{Status: "failed"} }, "x: known failed, nothing stored"},
		{"not visited again", func(e *evidence) { e.Stored["small/growing"][0].Status = "failed" }, "small/growing: 1 visits"},
		{"save code now not scheduled", func(e *evidence) { e.Runs = e.Runs[:1] }, `its run is "", want eventful`},
		{"save code now overtook nothing", func(e *evidence) { e.Asked = at(-1) }, "it overtook no visit"},
		{"no share", func(e *evidence) { e.Claims["small/plain"][0] = at(2) }, "all 7 of the large forge were claimed"},
		{"queue overfilled", func(e *evidence) { e.Queues[expressQueue] = queue{Peak: expressSlots + 2} }, "22 messages, limit 20, and 1 came twice"},
		{"message not sent", func(e *evidence) { e.Waiting = 1 }, "1 messages were not sent"},
		{"run left open", func(e *evidence) { e.Runs[0].Status = "started" }, "left open"},
		{"claim without visit", func(e *evidence) { e.Claims["small/plain"] = append(e.Claims["small/plain"], at(40)) }, "scheduled 2 times, visited 1 times"},
		{"message that no worker received", func(e *evidence) { e.Executions.Received-- }, "2 messages published, workers received 1"},
		{"run twice before the cut", func(e *evidence) { e.Faults[0].At = at(22) }, "the task b was run 2 times"},
		{"run twice without a cut", func(e *evidence) { e.Faults[0].Name = "PostgreSQL" }, "the task b was run 2 times"},
		{"run twice as a daemon that sends was killed", func(e *evidence) { e.Faults[0].Name = "schedule-recurrent" }, ""},
		{"run twice as another was killed", func(e *evidence) { e.Faults[0].Name = "rpc-serve" }, "the task b was run 2 times"},
		{"visits without a reason", func(e *evidence) { v := e.Stored["small/plain"]; e.Stored["small/plain"] = append(v, v[0], v[0]) }, "visited 3 times, with reason for 1"},
		{"a fault that did not fall", func(e *evidence) { e.Expected++ }, "1 of 2 fell"},
		{"daemon killed", func(e *evidence) { e.Stopped["rpc-serve"] = errors.New("signal: killed") }, "rpc-serve: signal: killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := goodRun()
			test.spoil(e)
			got := strings.Join(failed(verdict(e)), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("verdict:\n%s\nwant %q in it", got, test.want)
			}
		})
	}
}
