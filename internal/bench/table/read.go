package main

import (
	"io"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// figure is one measurement of one side of a benchmark.
type figure struct{ benchmark, side, unit string }

// table is all figures in their order, and facts about the machine.
type table struct {
	order  []figure
	values map[figure]float64
	facts  map[string]string
}

// row is a figure of ours beside another's.
type row struct {
	figure // the other's
	ours   float64
	other  float64
}

const (
	ours = "ours"
	peer = "peer"
)

// read collects figures. Of a benchmark measured several times the mean counts.
func read(r io.Reader) (*table, error) {
	t := &table{values: map[figure]float64{}, facts: map[string]string{}}
	counts := map[figure]float64{}
	reader := benchfmt.NewReader(r, "standard input")
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // other output between the results
		}
		for _, c := range result.Config {
			t.facts[c.Key] = string(c.Value)
		}
		benchmark, last := split(result.Name)
		for _, v := range result.Values {
			f := figure{benchmark, last, v.Unit}
			if side, unit, found := strings.Cut(v.Unit, "-"); found && (side == ours || side == peer) {
				f = figure{join(benchmark, last), side, unit}
			}
			if counts[f]++; counts[f] == 1 {
				t.order = append(t.order, f)
			}
			t.values[f] += (v.Value - t.values[f]) / counts[f]
		}
	}
	return t, reader.Err()
}

// split parts the last element, which may be a side, from a benchmark's name, and
// leaves out GOMAXPROCS.
func split(full benchfmt.Name) (benchmark, last string) {
	name, parts := full.Parts()
	if n := len(parts); n > 0 && strings.HasPrefix(string(parts[n-1]), "-") {
		parts = parts[:n-1]
	}
	benchmark = string(name)
	for i, p := range parts {
		if i == len(parts)-1 {
			return benchmark, strings.TrimPrefix(string(p), "/")
		}
		benchmark += string(p)
	}
	return benchmark, ""
}

func join(benchmark, last string) string {
	if last == "" {
		return benchmark
	}
	return benchmark + "/" + last
}

// rows are the figures that have one of ours beside them. A zero is a unit that a
// benchmark had left out.
func (t *table) rows() []row {
	var rows []row
	for _, f := range t.order {
		if f.side == ours {
			continue
		}
		mine := t.values[figure{f.benchmark, ours, f.unit}]
		if mine == 0 && f.side == peer { // a unit without a side is ours
			name, last := f.benchmark, ""
			if i := strings.LastIndexByte(name, '/'); i >= 0 {
				name, last = name[:i], name[i+1:]
			}
			mine = t.values[figure{name, last, f.unit}]
		}
		if mine != 0 && t.values[f] != 0 {
			rows = append(rows, row{f, mine, t.values[f]})
		}
	}
	return rows
}

// ratio is above 1 where ours is better: a rate is better the higher it is,
// anything else the lower.
func (r row) ratio() float64 {
	if strings.HasSuffix(r.unit, "/s") {
		return r.ours / r.other
	}
	return r.other / r.ours
}
