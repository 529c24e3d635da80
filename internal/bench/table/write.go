package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"swh-scheduler/internal/pytext"
)

// titles say in words what benchmarks measure; one that is not here goes by its
// name.
var titles = map[string]string{
	"Runner":              "runner, 50,000 ready tasks",
	"IdlePass":            "runner, a pass over 300 task types with nothing to do",
	"SaveCodeNow":         "save code now beside 100,000 ready tasks, from row to queue",
	"Listener":            "listener, 20,000 events of 10,000 runs",
	"Replay":              "journal client, one partition",
	"Grab":                "grab of 1,000 visits",
	"GrabThroughRPC":      "grab of 1,000 visits through the Python RPC client",
	"SmallCalls":          "RPC, small calls from 16 clients",
	"RecordListedOrigins": "RPC, calls that record 1,000 origins",
	"Start":               "start of the command (--help)",
	"Run":                 "simulation",
}

// units say in words what the shorter units mean.
var units = map[string]string{
	"sec/op":      "s",
	"cpu-µs/task": "µs of processor time a task",
	"MiB":         "MiB of memory",
	"call-ms":     "ms",
	"p50-ms":      "ms, half of them",
	"p99-ms":      "ms, 99 of 100",
}

func (r row) title() string {
	name, rest, _ := strings.Cut(r.benchmark, "/")
	if title, found := titles[name]; found {
		name = title
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part != "" {
			name += ", " + part
		}
	}
	if r.side != peer {
		name += " (beside: " + r.side + ")"
	}
	return name
}

func (r row) words() string {
	if unit, found := units[r.unit]; found {
		return unit
	}
	return r.unit
}

// number is a value with three significant digits, and thousands apart.
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

// where says when and on what the figures were measured.
func where(facts map[string]string) string {
	return fmt.Sprintf("%s, %s cores (%s), %s of memory, %s; Go %s, PostgreSQL %s, RabbitMQ %s, Kafka %s, Python %s, Celery %s, swh.scheduler %s",
		facts["date"], facts["cores"], facts["cpu"], facts["memory"], facts["system"], facts["go"], facts["postgresql"],
		facts["rabbitmq"], facts["kafka"], facts["python"], facts["celery"], facts["peer"])
}

func markdown(facts map[string]string, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s.\n\n| work | unit | ours | Python | ratio |\n|---|---|---:|---:|---:|\n", where(facts))
	title := ""
	for _, r := range rows {
		shown := "…"
		if r.title() != title {
			title = r.title()
			shown = title
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", shown, r.words(), number(r.ours), number(r.other), number(r.ratio()))
	}
	return b.String()
}
