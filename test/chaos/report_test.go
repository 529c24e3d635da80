package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// seedRun has the results of a seed.
type seedRun struct {
	seed   uint64
	lasted time.Duration // duration of the faults
	faults []string      // in their order
	work   int           // number of tasks and origins, of all seeds until then
	failed bool
}

// report returns the results of a run, as Markdown.
func (w *watcher) report(all []seedRun, faults map[string]int, v verdict) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("| run | |\n|---|---|")
	drawn := fmt.Sprint(all[0].seed)
	if len(all) > 1 {
		drawn = fmt.Sprintf("%d to %d", all[0].seed, all[len(all)-1].seed)
	}
	var lasted time.Duration
	for _, run := range all {
		lasted += run.lasted
	}
	line("| seed | %s |\n| faults fell for | %s |", drawn, lasted.Round(time.Second))
	b.WriteString(outcome(v))
	line("\n| fault | times |\n|---|---|")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		line("| %s | %d |", kind, faults[kind])
	}
	b.WriteString(w.longest())
	line("\n| seed | faults | tasks and origins so far | |\n|---|---|---|---|")
	for _, run := range all {
		ended := "holds"
		if run.failed {
			ended = "fails"
		}
		line("| %d | %s | %d | %s |", run.seed, strings.Join(run.faults, "; "), run.work, ended)
	}
	return b.String()
}

// outcome returns the rows of a report on all work.
func outcome(v verdict) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("| tasks and origins | %d |\n| executions | %d |", v.work, v.executions)
	line("| sent again, with the same id | %d |\n| delivered again by RabbitMQ | %d |", v.repeats, v.redelivered)
	line("| begun, and lost with a worker | %d |\n| done, and done again: the end was lost with a worker | %d |", v.lost, v.again)
	line("| done, and done again: the visit was lost with its topic | %d |", v.visits)
	return b.String()
}

// longest returns the tables of a report on the longest stalls of daemons and of queues.
func (w *watcher) longest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("\n| daemon | longest not ready, after a fault of its own | otherwise | peak RSS |\n|---|---|---|---|")
	for _, d := range w.c.daemons {
		s := w.daemons[d]
		line("| %s | %s | %s | %d MiB |", d.name, seconds(s.after.lasted), seconds(s.beside.lasted), w.rss[d.name]>>10)
	}
	line("\n| queue | limit | most ready | longest without a delivery, after a fault of its own | otherwise |\n|---|---|---|---|---|")
	for _, q := range queues {
		if q.limit > 0 {
			s := w.queues[q.name]
			line("| %s (%s) | %d | %d | %s | %s |", q.name, q.kind, q.limit, w.most[q.name], seconds(s.after.lasted), seconds(s.beside.lasted))
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// stalls returns the stalls of more than five seconds with their times, to find them in logs.
func (w *watcher) stalls() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	say := func(name string, s *state) {
		for _, one := range []stall{s.after, s.beside} {
			if one.lasted > 5*time.Second {
				fmt.Fprintf(&b, "%s stalled for %s until %s (%s)\n", name, seconds(one.lasted), one.until.UTC().Format("15:04:05.0"), one.until.Sub(w.began).Round(time.Second))
			}
		}
	}
	for _, d := range w.c.daemons {
		say(d.name, w.daemons[d])
	}
	for _, q := range queues {
		say(q.name, w.queues[q.name])
	}
	return b.String()
}
