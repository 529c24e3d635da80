package main

import (
	"fmt"
	"slices"
	"time"
)

// evidence is all that the verdict is drawn from.
type evidence struct {
	Repositories []repository
	Ledger       *ledger
	Saved        saved
	Executions   []execution    // in the order of their start
	Published    map[string]int // messages that the broker took, by queue
	QueuePeak    int
	QueueLimit   int
	Stopped      []stopped // nil if they were left running
}

// saved is the save-code-now request.
type saved struct {
	URL     string
	Asked   time.Time // zero: not asked yet
	Waiting int       // messages ready in the visits' queue at that moment
}

// stopped is how one of our daemons ended when told to.
type stopped struct {
	Name string
	Took time.Duration
	Err  error
}

// check is one promise of the demo, and what is not as it should be; nothing if it was kept.
type check struct {
	Name    string
	Missing []string
}

// verdict says, for each promise of the demo, whether it was kept.
func verdict(e evidence) []check {
	var checks []check
	for _, promise := range []struct {
		name  string
		check func(e evidence, missing func(format string, args ...any))
	}{
		{"every repository was listed", checkListed},
		{"every repository was visited, with the outcome it should have", checkVisited},
		{"every repository with new commits was visited again, and they were found", checkNews},
		{"save-code-now was served, before visits that were waiting", checkSaved},
		{"nothing was lost: every message was published, run and reported", checkNothingLost},
		{"nothing was done twice: no message, and no visit without a reason", checkNothingTwice},
		{"the queue never held more than its limit", checkQueue},
		{"every daemon stopped cleanly when told to", checkStopped},
	} {
		c := check{Name: promise.name}
		promise.check(e, func(format string, args ...any) { c.Missing = append(c.Missing, fmt.Sprintf(format, args...)) })
		checks = append(checks, c)
	}
	if e.Stopped == nil { // left running
		checks = checks[:len(checks)-1]
	}
	return checks
}

func checkListed(e evidence, missing func(string, ...any)) {
	if got, want := e.Ledger.last.Listed, len(e.Repositories); got != want {
		missing("%d origins listed, want %d", got, want)
	}
}

// expectedStatus is what a visit of a repository comes to.
func (k kind) expectedStatus() string {
	switch k {
	case broken:
		return "failed"
	case vanishing:
		return "not_found"
	default:
		return "successful"
	}
}

func checkVisited(e evidence, missing func(string, ...any)) {
	for _, r := range e.Repositories {
		results := e.Ledger.results[r.URL()]
		if len(results) == 0 {
			missing("no visit of %s", r.URL())
		}
		for _, result := range results {
			if result.Status != r.Kind.expectedStatus() {
				missing("a visit of the %s %s: %s, want %s", r.Kind, r.URL(), result.Status, r.Kind.expectedStatus())
			}
		}
	}
}

func checkNews(e evidence, missing func(string, ...any)) {
	for _, r := range e.Repositories {
		if r.Kind == growing && !e.Ledger.foundNews(r.URL()) {
			missing("%s: %d visits, new snapshot not seen", r.URL(), len(e.Ledger.results[r.URL()]))
		}
	}
}

func checkSaved(e evidence, missing func(string, ...any)) {
	run, ok := e.Ledger.savedRun()
	if !ok {
		missing("the request was not scheduled")
		return
	}
	if run.Status != "eventful" {
		missing("the request's run is %s, want eventful", run.Status)
	}
	if len(e.Ledger.results[e.Saved.URL]) != 1 {
		missing("%d results of %s, want 1", len(e.Ledger.results[e.Saved.URL]), e.Saved.URL)
	}
	if len(e.overtaken()) == 0 {
		missing("it overtook no visit (%d were waiting)", e.Saved.Waiting)
	}
}

// overtaken returns how long each visit waited that was claimed before the
// save-code-now request was made and started after it was served, in
// increasing order.
func (e evidence) overtaken() []time.Duration {
	var served time.Time
	for _, x := range e.Executions {
		if x.Queue == saveQueue {
			served = x.Started
		}
	}
	if served.IsZero() {
		return nil
	}
	var waits []time.Duration
	nth := map[string]int{}
	for _, x := range e.Executions {
		if x.Queue != loadTask {
			continue
		}
		claims := e.Ledger.claims[x.Subject]
		i := nth[x.Subject]
		nth[x.Subject]++
		if i < len(claims) && claims[i].Before(e.Saved.Asked) && x.Started.After(served) {
			waits = append(waits, x.Started.Sub(claims[i]))
		}
	}
	slices.Sort(waits)
	return waits
}

func checkNothingLost(e evidence, missing func(string, ...any)) {
	if n := e.Ledger.last.Outbox; n != 0 {
		missing("%d messages are still in the outbox", n)
	}
	for _, run := range e.Ledger.last.Runs {
		if run.open() {
			missing("the run %s of a %s task is left %s", run.ID, run.Type, run.Status)
		}
	}
	ran := e.visitsRun()
	for url, claims := range e.Ledger.claims {
		if ran[url] < len(claims) {
			missing("%s: scheduled %d times, run %d times", url, len(claims), ran[url])
		}
		if got := len(e.Ledger.results[url]); got < len(claims) {
			missing("%s: scheduled %d times, %d results", url, len(claims), got)
		}
	}
	for queue, published := range e.Published {
		run := 0
		for _, x := range e.Executions {
			if x.Queue == queue {
				run++
			}
		}
		if run != published {
			missing("queue %s: %d messages published, %d tasks run", queue, published, run)
		}
	}
}

// visitsRun counts the recurrent visits that the workers started, by URL.
func (e evidence) visitsRun() map[string]int {
	count := map[string]int{}
	for _, x := range e.Executions {
		if x.Queue == loadTask {
			count[x.Subject]++
		}
	}
	return count
}

func checkNothingTwice(e evidence, missing func(string, ...any)) {
	starts := map[string]int{}
	for _, x := range e.Executions {
		starts[x.ID]++
		if starts[x.ID] == 2 {
			missing("the task %s (%s %s) was run twice", x.ID, x.Task, x.Subject)
		}
	}
	ran := e.visitsRun()
	for _, r := range e.Repositories {
		reasons := 1
		if r.Kind == growing {
			reasons = 2
		}
		if ran[r.URL()] > reasons {
			missing("the %s %s was visited %d times, with reason for %d", r.Kind, r.URL(), ran[r.URL()], reasons)
		}
	}
}

func checkQueue(e evidence, missing func(string, ...any)) {
	if e.QueuePeak > e.QueueLimit {
		missing("%d messages, limit %d", e.QueuePeak, e.QueueLimit)
	}
}

func checkStopped(e evidence, missing func(string, ...any)) {
	for _, s := range e.Stopped {
		if s.Err != nil {
			missing("%s: %v after %s", s.Name, s.Err, s.Took.Round(time.Millisecond))
		}
	}
}
