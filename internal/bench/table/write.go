package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/pytext"
)

// titles are the descriptions of the benchmarks in the complete tables.
var titles = []struct{ benchmark, title string }{
	{"Runner", "runner, 50,000 ready tasks"},
	{"IdlePass", "runner, a pass over 300 task types with nothing to do"},
	{"SaveCodeNow", "save code now beside 100,000 ready tasks, from row to queue"},
	{"Listener", "listener, 10,000 events of 5,000 runs"},
	{"Replay", "journal client, 100,000 records of one partition"},
	{"Claims", "claim of 10,000 visits"},
	{"Grab", "1,000 origins"},
	{"SmallCalls", "RPC, small calls from 16 clients"},
	{"RecordListedOrigins", "RPC, calls that record 1,000 origins"},
	{"Start", "start of the command (--help)"},
	{"Idle", "memory of an idle daemon"},
}

// parts are the descriptions of the parts of a benchmark's name.
var parts = map[string]string{
	"dry":     "dry grab",
	"real":    "claimed grab",
	"sampled": "dry grab as in the default policies (Python: of a sample of 0.1 %)",
	"listing": "a listing of those that changed",
	"journal": "visits of the journal, in the database",
	"rpc":     "dry grab through the Python RPC client",
}

// units are the descriptions of abbreviated units.
var units = map[string]string{
	"cpu-µs/task":   "µs of processor time a task",
	"cpu-µs/record": "µs of processor time a record",
	"cpu-ms":        "ms of processor time",
	"µs/origin":     "µs an origin returned",
	"MiB":           "MiB of memory",
	"p50-ms":        "ms, half of them",
	"p99-ms":        "ms, 99 of 100",
	"until-done-ms": "ms without the drain",
}

// row is a figure of a benchmark.
type row struct{ benchmark, unit string }

// inReadme are the rows of the table in the README.
var inReadme = []row{
	{"Runner", "tasks/s"},
	{"SaveCodeNow", "p99-ms"},
	{"Listener", "events/s"},
	{"Replay", "records/s"},
	{"Grab/origins=1000000/dry/already_visited_order_by_lag", "ms"},
	{"Grab/origins=1000000/real/already_visited_order_by_lag", "ms"},
	{"Grab/origins=1000000/rpc/already_visited_order_by_lag", "ms"},
	{"SmallCalls", "calls/s"},
	{"Start", "ms"},
	{"Idle/start-runner", "MiB"},
}

// inPage are the rows of the first table of docs/explanation/performance.md, which has also those that aren't in our
// favour.
var inPage = []row{
	{"Runner", "tasks/s"},
	{"Runner", "MiB"},
	{"SaveCodeNow", "p99-ms"},
	{"Listener", "events/s"},
	{"Replay", "records/s"},
	{"Replay", "MiB"},
	{"Grab/origins=1000000/dry/already_visited_order_by_lag", "ms"},
	{"Grab/origins=1000000/real/already_visited_order_by_lag", "ms"},
	{"Grab/origins=1000000/real/already_visited_order_by_lag", "until-done-ms"},
	{"Grab/origins=100000/sampled/already_visited_order_by_lag", "ms"},
	{"Grab/origins=1000000/sampled/already_visited_order_by_lag", "ms"},
	{"Grab/origins=1000000/listing", "ms"},
	{"Grab/origins=1000000/journal", "ms"},
	{"Grab/origins=1000000/rpc/already_visited_order_by_lag", "ms"},
	{"SmallCalls", "calls/s"},
	{"SmallCalls", "p99-ms"},
	{"RecordListedOrigins", "calls/s"},
	{"Start", "ms"},
	{"Idle/start-runner", "MiB"},
}

// costsInPage are the benchmarks whose costs the page has.
var costsInPage = []string{"Claims", "Grab/origins=1000000/listing", "Grab/origins=1000000/journal", "RecordListedOrigins"}

// chosen returns some of the rows.
func chosen(all []comparison, rows []row) (some []comparison, err error) {
	for _, want := range rows {
		i := slices.IndexFunc(all, func(c comparison) bool { return c.benchmark == want.benchmark && c.unit == want.unit })
		if i < 0 {
			return nil, fmt.Errorf("benchmark %s has no %s of ours and the Python scheduler's", want.benchmark, want.unit)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// title returns the description of a benchmark.
func title(benchmark string) string {
	name, rest, _ := strings.Cut(benchmark, "/")
	for _, t := range titles {
		if t.benchmark == name {
			name = t.title
		}
	}
	for part := range strings.SplitSeq(rest, "/") {
		if words, found := parts[part]; found {
			part = words
		}
		if size, isSize := strings.CutPrefix(part, "origins="); isSize {
			n, _ := strconv.Atoi(size)
			part = "of " + pytext.Thousands(n)
		}
		if part != "" {
			name += ", " + part
		}
	}
	return name
}

func inWords(unit string) string {
	if words, found := units[unit]; found {
		return words
	}
	return unit
}

// number formats a value with three significant digits and thousands separators.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	n, _ := strconv.Atoi(whole)
	return strings.TrimSuffix(pytext.Thousands(n)+"."+fraction, ".")
}

// String formats the median and, if they differ, the minimum and maximum.
func (f figure) String() string {
	if f.least == f.greatest {
		return number(f.median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(f.median), number(f.least), number(f.greatest))
}

// where returns the date and the machine of the figures as a text.
func (m *measurements) where() string {
	f := m.facts
	return fmt.Sprintf("Measured on %s, %s cores (%s), %s of memory, %s. Versions: Go %s, PostgreSQL %s (fsync %s), RabbitMQ %s, Kafka %s, Python %s, Celery %s, swh.scheduler %s. "+
		"Medians, with the least and the greatest of all runs.\n\n",
		f["date"], f["cores"], f["cpu"], f["memory"], f["system"], f["go"], f["postgresql"], f["fsync"],
		f["rabbitmq"], f["kafka"], f["python"], f["celery"], f["peer"])
}

func comparisonTable(rows []comparison) string {
	var b strings.Builder
	b.WriteString("| work | unit | ours | limit | Python | ratio |\n|---|---|---:|---:|---:|---:|\n")
	last := ""
	for _, c := range rows {
		var limits []string
		for _, name := range slices.Sorted(maps.Keys(c.limits)) {
			limits = append(limits, number(c.limits[name].median)+" "+strings.ReplaceAll(name, "_", " "))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", once(&last, title(c.benchmark)), inWords(c.unit),
			c.ours, strings.Join(limits, "; "), c.peer, number(ratio(c.unit, c.ours, c.peer)))
	}
	return b.String()
}

func costTable(rows []cost) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| work | unit | with | without | with it | times |\n|---|---|---|---:|---:|---:|\n")
	last := ""
	for _, c := range rows {
		with := strings.ReplaceAll(c.with, "_", " ")
		if with == bench.PeerBeside {
			with = "our triggers (Python)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", once(&last, title(c.benchmark)), inWords(c.unit),
			with, c.base, c.figure, number(ratio(c.unit, c.base, c.figure)))
	}
	return b.String()
}

func roadTable(rows []road) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| work | unit | with the database | by the door | door/database | Python by its RPC server | ratio |\n|---|---|---:|---:|---:|---:|---:|\n")
	last := ""
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", once(&last, title(r.benchmark)), inWords(r.unit),
			r.database, r.byDoor, number(ratio(r.unit, r.byDoor, r.database)), r.peer, number(ratio(r.unit, r.byDoor, r.peer)))
	}
	return b.String()
}

// once returns title, or "…" if it equals the last one.
func once(last *string, title string) string {
	if title == *last {
		return "…"
	}
	*last = title
	return title
}
