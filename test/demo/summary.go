package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// maxMissing is how many problems are printed for each failed check.
const maxMissing = 5

// printSummary prints the figures of a run and its verdict.
func printSummary(w io.Writer, e *evidence, checks []check, elapsed time.Duration, color bool) {
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "  %-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	outcomes := map[string]int{}
	for _, visits := range e.Stored {
		for _, v := range visits {
			outcomes[v.Type]++
			outcomes[v.Status]++
		}
	}
	slices.Sort(e.Latencies)
	ofLarge, ofSmall, left := e.shared()
	_, _ = fmt.Fprintf(w, "\nSummary, after %s\n", seconds(elapsed))
	line("visits", "%d of git, %d of archives: %d full, %d failed, %d not found", outcomes["git"], outcomes["tar"],
		outcomes["full"], outcomes["failed"], outcomes["not_found"])
	line("latency", "p50 %s, p99 %s from a visit's claim to its result in the scheduler's database",
		seconds(percentile(e.Latencies, 50)), seconds(percentile(e.Latencies, 99)))
	line("lanes", "%d visits timed out in the express lane, and went on in the slow one", e.Executions.TimedOut)
	line("shares", "%d visits of the large forge beside the %d of the small one, %d after", ofLarge, ofSmall, left)
	line("queues", "at most %d of %d messages (express), %d of %d (slow), %d of %d (archives)",
		e.Queues[expressQueue].Peak, limits[expressQueue], e.Queues[slowQueue].Peak, limits[slowQueue],
		e.Queues[archivesQueue].Peak, limits[archivesQueue])
	if run := e.saveRun(); run.Ended != nil {
		waits := e.overtaken()
		line("save code now", "done after %s; overtook %d visits, which waited %s (median)",
			seconds(run.Ended.Sub(e.Asked)), len(waits), seconds(percentile(waits, 50)))
	}
	if killed := len(daemons); len(e.Faults) > 0 {
		line("survived", "kill -9 of %d daemons", killed)
		for _, f := range e.Faults[killed:] {
			line("", "%s: %s", f.Name, f.Says)
		}
		line("", "%d tasks were delivered, and run, again", e.twice())
	}
	_, _ = fmt.Fprintln(w)
	for _, c := range checks {
		mark := map[bool]string{true: "\x1b[32mok    \x1b[m", false: "\x1b[31mFAILED\x1b[m"}[len(c.Missing) == 0]
		if !color {
			mark = mark[5:11]
		}
		_, _ = fmt.Fprintf(w, "  %s %s\n", mark, c.Name)
		for i, missing := range c.Missing {
			if i == maxMissing {
				_, _ = fmt.Fprintf(w, "           and %d more\n", len(c.Missing)-i)
				break
			}
			_, _ = fmt.Fprintf(w, "           %s\n", missing)
		}
	}
	_, _ = fmt.Fprintln(w)
}

// failed lists the checks that failed.
func failed(checks []check) []string {
	var names []string
	for _, c := range checks {
		if len(c.Missing) > 0 {
			names = append(names, c.Name+": "+strings.Join(c.Missing[:min(len(c.Missing), maxMissing)], "; "))
		}
	}
	return names
}

// percentile returns the p-th percentile of sorted values; p is below 100.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)*p/100]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
