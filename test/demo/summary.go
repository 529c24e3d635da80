package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// maxMissing bounds what is printed of one failed check.
const maxMissing = 5

// printSummary prints the figures of a run and its verdict.
func printSummary(w io.Writer, e evidence, checks []check, elapsed time.Duration, color bool) {
	latencies, outcomes := e.Ledger.latencies(), e.Ledger.outcomes()
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "  %-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	_, _ = fmt.Fprintf(w, "\nSummary, after %s\n", seconds(elapsed))
	line("origins listed", "%d", e.Ledger.last.Listed)
	line("visits scheduled", "%d, and 1 save-code-now request", e.Ledger.scheduled())
	line("visits", "%d successful, %d failed, %d not found",
		outcomes["successful"], outcomes["failed"], outcomes["not_found"])
	line("queue", "at most %d messages, limit %d", e.QueuePeak, e.QueueLimit)
	line("end-to-end latency", "p50 %s, p99 %s (from a visit's claim to its result in the database)",
		seconds(percentile(latencies, 50)), seconds(percentile(latencies, 99)))
	if run, ok := e.Ledger.savedRun(); ok && run.Ended != nil {
		waits := e.overtaken()
		line("save-code-now", "done %s after the request; overtook %d visits, which waited %s (median)",
			seconds(run.Ended.Sub(e.Saved.Asked)), len(waits), seconds(percentile(waits, 50)))
	}
	_, _ = fmt.Fprintln(w)
	for _, c := range checks {
		mark, code := "ok", "32"
		if len(c.Missing) > 0 {
			mark, code = "FAILED", "31"
		}
		_, _ = fmt.Fprintf(w, "  %s %s\n", paint(fmt.Sprintf("%-6s", mark), code, color), c.Name)
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

// failed names the checks that were not passed.
func failed(checks []check) []string {
	var names []string
	for _, c := range checks {
		if len(c.Missing) > 0 {
			names = append(names, c.Name+": "+strings.Join(c.Missing[:min(len(c.Missing), maxMissing)], "; "))
		}
	}
	return names
}

func paint(text, code string, color bool) string {
	if !color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
