package main

import (
	"fmt"
	"time"
)

// check is one promise of the demo, and what is not as it should be; nothing if it was kept.
type check struct {
	Name    string
	Missing []string
}

// verdict says, for each promise of the demo, whether it was kept. None is about speed.
func verdict(e *evidence) []check {
	var checks []check
	for _, promise := range []struct {
		name  string
		check func(e *evidence, missing func(format string, args ...any))
		skip  bool // without faults, and if all is left running
	}{
		{"every origin was listed", checkListed, false},
		{"every origin was visited, with the outcome it should have, also the slow ones", checkVisited, false},
		{"the scheduler knows of each origin what the storage has", checkKnown, false},
		{"new commits and releases were found by visiting again", checkAgain, false},
		{"save code now was served, before visits that were waiting", checkSaved, false},
		{"the small forge had its share, and did not wait for the large one", checkShares, false},
		{"no queue was longer than its limit", checkLimits, false},
		{"nothing was lost: every visit and message was run and reported", checkNothingLost, false},
		{"nothing was done twice, but what a daemon that was killed, or a connection that was cut, had in hand", checkNothingTwice, false},
		{"every fault fell, and was survived", checkFaults, e.Expected == 0},
		{"every daemon stopped cleanly when told to", checkStopped, e.Stopped == nil},
	} {
		if promise.skip {
			continue
		}
		c := check{Name: promise.name}
		promise.check(e, func(format string, args ...any) { c.Missing = append(c.Missing, fmt.Sprintf(format, args...)) })
		checks = append(checks, c)
	}
	return checks
}

func checkListed(e *evidence, missing func(string, ...any)) {
	if got, want := e.Last.Listed, len(e.Origins); got != want {
		missing("%d origins listed, want %d", got, want)
	}
}

func checkVisited(e *evidence, missing func(string, ...any)) {
	for _, o := range e.Origins {
		visits := e.visits(o.URL)
		if len(visits) == 0 {
			missing("no visit of %s", o.URL)
			continue
		}
		if v := visits[len(visits)-1]; v.Status != o.Status || v.Tip != o.Tip {
			missing("the last visit of the %s %s: %s %.8s, want %s %.8s", o.Kind, o.URL, v.Status, v.Tip, o.Status, o.Tip)
		}
	}
}

func checkKnown(e *evidence, missing func(string, ...any)) {
	for _, d := range e.differences() {
		missing("%s", d)
	}
}

// full counts the visits of an origin that archived all of it.
func (e *evidence) full(url string) (n int) {
	for _, v := range e.visits(url) {
		if v.Status == "full" {
			n++
		}
	}
	return n
}

func checkAgain(e *evidence, missing func(string, ...any)) {
	for _, o := range e.Origins {
		if n := e.full(o.URL); o.Kind == growing && n < 2 {
			missing("%s: %d visits", o.URL, n)
		}
	}
}

func checkSaved(e *evidence, missing func(string, ...any)) {
	if run, ok := e.saveRun(); !ok || run.Status != "eventful" {
		missing("its run is %q, want eventful", run.Status)
	}
	if len(e.overtaken()) == 0 {
		missing("it overtook no visit")
	}
}

func checkShares(e *evidence, missing func(string, ...any)) {
	if ofLarge, ofSmall, left := e.shared(); left == 0 {
		missing("all %d of the large forge were claimed before the last of the %d of the small one", ofLarge, ofSmall)
	}
}

// checkLimits lets a queue also hold what came twice.
func checkLimits(e *evidence, missing func(string, ...any)) {
	again := len(e.twice())
	for name, limit := range limits {
		if peak := e.Queues[name].Peak; peak > limit+again {
			missing("%s: %d messages, limit %d, and %d came twice", name, peak, limit, again)
		}
	}
}

func checkNothingLost(e *evidence, missing func(string, ...any)) {
	if n := e.Last.Waiting; n != 0 {
		missing("%d messages were not sent", n)
	}
	if e.open() {
		missing("runs are left open: %v", e.Last.Runs)
	}
	for url, claims := range e.Claims {
		if n := len(e.visits(url)); n < len(claims) {
			missing("%s: scheduled %d times, visited %d times", url, len(claims), n)
		}
	}
	published := 0
	for _, name := range taskQueues {
		published += e.Queues[name].Published
	}
	if n := e.Executions.Received; n < published {
		missing("%d messages published, workers received %d", published, n)
	}
}

// checkNothingTwice also looks at visits without a reason: of an origin there is one, and
// another if there is something new. One that timed out may have been over at that moment.
func checkNothingTwice(e *evidence, missing func(string, ...any)) {
	from := e.repeats()
	for id, ended := range e.Executions.Ended {
		if len(ended) > 1 && (from.IsZero() || ended[1].Before(from)) {
			missing("the task %s was run %d times", id, len(ended))
		}
	}
	excused := len(e.twice()) + e.Executions.TimedOut
	for _, o := range e.Origins {
		reasons := 1
		if o.Kind == growing {
			reasons = 2
		}
		if n := e.full(o.URL) - reasons; n > 0 {
			if excused -= n; excused < 0 {
				missing("the %s %s was visited %d times, with reason for %d", o.Kind, o.URL, n+reasons, reasons)
			}
		}
	}
}

func checkFaults(e *evidence, missing func(string, ...any)) {
	if n := len(e.Faults); n != e.Expected {
		missing("%d of %d fell", n, e.Expected)
	}
}

func checkStopped(e *evidence, missing func(string, ...any)) {
	for _, s := range e.Stopped {
		if s.Err != nil {
			missing("%s: %v after %s", s.Name, s.Err, s.Took.Round(time.Millisecond))
		}
	}
}
