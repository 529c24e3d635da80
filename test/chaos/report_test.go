package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report is what a run showed, as Markdown.
func (w *watcher) report(seed uint64, lasted time.Duration, faults map[string]int, v verdict) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("| run | |\n|---|---|")
	line("| seed | %d |\n| faults fell for | %s |", seed, lasted.Round(time.Second))
	line("| tasks and origins | %d |\n| executions | %d |", v.work, v.executions)
	line("| sent again, with the same id | %d |\n| delivered again by RabbitMQ | %d |", v.repeats, v.redelivered)
	line("| lost with a killed Celery worker | %d |", v.lost)
	line("\n| fault | times |\n|---|---|")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		line("| %s | %d |", kind, faults[kind])
	}
	line("\n| daemon | longest not ready | peak RSS |\n|---|---|---|")
	for _, d := range w.c.daemons {
		line("| %s | %s | %d MiB |", d.name, seconds(w.daemons[d].longest), w.rss[d.name]>>10)
	}
	line("\n| queue | limit | most messages | longest without a delivery |\n|---|---|---|---|")
	for _, q := range queues {
		if q.limit > 0 {
			line("| %s (%s) | %d | %d | %s |", q.name, q.kind, q.limit, w.deepest[q.name], seconds(w.queues[q.name].longest))
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
