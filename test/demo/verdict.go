package main

import "fmt"

// check is a check of the demo.
type check struct {
	Name    string
	Missing []string // violations; empty if it passed
}

// verdict checks the promises of the demo. None is about speed.
func verdict(e *evidence) (checks []check) {
	type say = func(format string, args ...any)
	promise := func(name string, look func(missing say)) {
		c := check{Name: name}
		look(func(format string, args ...any) { c.Missing = append(c.Missing, fmt.Sprintf(format, args...)) })
		checks = append(checks, c)
	}
	promise("every origin was listed", func(missing say) {
		if e.Listed != len(e.Origins) {
			missing("%d origins listed, want %d", e.Listed, len(e.Origins))
		}
	})
	promise("every origin was visited, with the outcome it should have, also the slow ones", func(missing say) {
		for _, o := range e.Origins {
			visits := e.Stored[o.URL]
			if len(visits) == 0 {
				missing("no visit of %s", o.URL)
			} else if v := visits[len(visits)-1]; v.Status != o.Status || v.Tip != o.Tip {
				missing("the last visit of the %s %s: %s %.8s, want %s %.8s", o.Kind, o.URL, v.Status, v.Tip, o.Status, o.Tip)
			}
		}
	})
	promise("the scheduler's database agrees with the storage on each origin", func(missing say) {
		for _, d := range e.differences() {
			missing("%s", d)
		}
	})
	promise("new commits and releases were found by visiting again", func(missing say) {
		for _, o := range e.Origins {
			if n := e.full(o.URL); o.Kind == growing && n < 2 {
				missing("%s: %d visits", o.URL, n)
			}
		}
	})
	promise("save code now was served, before visits that were waiting", func(missing say) {
		if run := e.saveRun(); run.Status != "eventful" {
			missing("its run is %q, want eventful", run.Status)
		}
		if len(e.overtaken()) == 0 {
			missing("it overtook no visit")
		}
	})
	promise("the small forge had its share, and did not wait for the large one", func(missing say) {
		if ofLarge, ofSmall, left := e.shared(); left == 0 {
			missing("all %d of the large forge were claimed before the last of the %d of the small one", ofLarge, ofSmall)
		}
	})
	// A queue may also have messages that were delivered twice.
	promise("no queue was longer than its limit", func(missing say) {
		for name, limit := range limits {
			if peak := e.Queues[name].Peak; peak > limit+e.twice() {
				missing("%s: %d messages, limit %d, and %d came twice", name, peak, limit, e.twice())
			}
		}
	})
	promise("nothing was lost: every visit and message was run and reported", func(missing say) {
		if e.Waiting != 0 {
			missing("%d messages were not sent", e.Waiting)
		}
		if e.open() {
			missing("runs are left open: %v", e.Runs)
		}
		for url, claims := range e.Claims {
			if n := len(e.Stored[url]); n < len(claims) {
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
	})
	// Each origin is a reason for one visit, a change for another. A visit that timed out may have ended at that
	// moment and is excused.
	promise("nothing was done twice, but what a daemon that was killed, or a connection that was cut, was sending or running", func(missing say) {
		from := e.repeats()
		for id, ended := range e.Executions.Ended {
			if len(ended) > 1 && (from.IsZero() || ended[1].Before(from)) {
				missing("the task %s was run %d times", id, len(ended))
			}
		}
		excused := e.twice() + e.Executions.TimedOut
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
	})
	if e.Expected > 0 {
		promise("every fault fell, and was survived", func(missing say) {
			if n := len(e.Faults); n != e.Expected {
				missing("%d of %d fell", n, e.Expected)
			}
		})
	}
	promise("no part lacked a right: each is a user of its own, with the rights that it needs and no more", func(missing say) {
		for _, line := range e.Refusals {
			missing("%s", line)
		}
	})
	if e.Stopped != nil {
		promise("every daemon stopped cleanly on SIGTERM", func(missing say) {
			for name, err := range e.Stopped {
				if err != nil {
					missing("%s: %v", name, err)
				}
			}
		})
	}
	return checks
}
