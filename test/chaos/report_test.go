package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report is what a run showed, as Markdown.
func (w *watcher) report(seed uint64, seeds int, lasted time.Duration, faults map[string]int, v verdict) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("| run | |\n|---|---|")
	drawn := fmt.Sprint(seed)
	if seeds > 1 {
		drawn = fmt.Sprintf("%d to %d", seed, seed+uint64(seeds)-1)
	}
	line("| seed | %s |\n| faults fell for | %s |", drawn, lasted.Round(time.Second))
	line("| tasks and origins | %d |\n| executions | %d |", v.work, v.executions)
	line("| sent again, with the same id | %d |\n| delivered again by RabbitMQ | %d |", v.repeats, v.redelivered)
	line("| lost with a killed Celery worker | %d |", v.lost)
	line("\n| fault | times |\n|---|---|")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		line("| %s | %d |", kind, faults[kind])
	}
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

// stalls are the stalls of more than five seconds, with when they were, to find them in logs.
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
