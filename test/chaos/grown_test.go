package chaos

import (
	"math"
	"strings"
	"testing"
)

// Each kind of growth is found alone. A restarted process is also compared with its own beginning. Tables with rows
// of each task or origin may grow with these.
func TestGrown(t *testing.T) {
	t.Parallel()
	quiet := func() []*hour {
		hours := make([]*hour, dayHours)
		for i := range hours {
			hours[i] = &hour{
				claims: histogram{0.1: 98, 1: 100, math.Inf(1): 100}, urgent: []float64{0.1, 0.2, 1},
				tables: []size{{"candidates", 10 << 20, 10_000, 0, 1, 1000}, {"work", 10 << 20, 1000, 500, 1, 1000}},
				others: []size{{"task", 10 << 20, 10_000, 1000, 1, 1000}},
				memory: map[string]memoryOf{"runner": {1, 50 << 10}},
			}
		}
		return hours
	}
	for name, c := range map[string]struct {
		change func(second, last *hour, all []*hour)
		wrong  string // a part of the only violation; empty: none
	}{
		"nothing": {func(_, _ *hour, _ []*hour) {}, ""},
		"memory":  {func(_, last *hour, _ []*hour) { last.memory["runner"] = memoryOf{1, 100 << 10} }, "runner has 102400 kB"},
		"memory since a restart": {func(_, last *hour, all []*hour) {
			for _, h := range all[10:] {
				h.memory["runner"] = memoryOf{2, 20 << 10}
			}
			last.memory["runner"] = memoryOf{2, 60 << 10}
		}, "in the first whole hour of its process"},
		"a table": {func(_, last *hour, _ []*hour) { last.tables[1].Bytes = 20 << 20 }, "work has 20971520 bytes"},
		"a table with its rows": {func(_, last *hour, _ []*hour) {
			last.tables[0].Bytes, last.tables[0].Live = 40<<20, 40_000
		}, ""},
		"a table beyond its rows": {func(_, last *hour, _ []*hour) {
			last.tables[0].Bytes, last.tables[0].Live = 40<<20, 20_000
		}, "candidates has"},
		"a table of a later migration": {func(_, last *hour, _ []*hour) {
			last.tables = append(last.tables, size{"looks", 50 << 20, 1, 1, 1, 1000})
		}, ""},
		"dead rows": {func(_, last *hour, _ []*hour) { last.others[0].Dead = 3501 }, "task has 3501 dead rows"},
		"no autovacuum": {func(_, last *hour, _ []*hour) {
			last.tables[0].Vacuum, last.tables[1].Vacuum, last.others[0].Vacuum = 0, 0, 0
		}, "no autovacuum"},
		"no figures": {func(second, _ *hour, _ []*hour) { second.tables = nil }, "could not be asked"},
		"slow claims": {func(_, _ *hour, all []*hour) {
			for _, h := range all[dayHours-compared:] {
				h.claims = histogram{0.1: 0, 1: 0, 16: 100, math.Inf(1): 100}
			}
		}, "99 % of claims"},
		"late tasks with priority": {func(_, _ *hour, all []*hour) {
			for _, h := range all[dayHours-compared:] {
				h.urgent = []float64{0.1, 30}
			}
		}, "99 % of tasks with priority"},
	} {
		hours := quiet()
		c.change(hours[1], hours[dayHours-1], hours)
		wrong := grown(hours)
		if len(wrong) > 1 || !strings.Contains(strings.Join(wrong, ""), c.wrong) || c.wrong == "" && len(wrong) > 0 {
			t.Errorf("%s: %q, want %q", name, wrong, c.wrong)
		}
	}
}

// Quantiles are interpolated within their bucket. Values beyond all bounds count as the last bound. A restarted
// daemon counts from zero.
func TestHistogram(t *testing.T) {
	t.Parallel()
	h := histogram{1: 50, 2: 90, math.Inf(1): 100}
	for part, want := range map[float64]float64{0.25: 0.5, 0.5: 1, 0.7: 1.5, 0.99: 2} {
		if got := h.quantile(part); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %g is %g, want %g", part, got, want)
		}
	}
	if got := (histogram{}).quantile(0.5); got != 0 {
		t.Errorf("a quantile of nothing is %g", got)
	}
	if got := since(histogram{1: 60, math.Inf(1): 105}, h); got[1] != 10 || got.total() != 5 {
		t.Errorf("since the last look: %v", got)
	}
	if got := since(histogram{1: 2, math.Inf(1): 3}, h); got[1] != 2 || got.total() != 3 {
		t.Errorf("since a restart: %v", got)
	}
}
