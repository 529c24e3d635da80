// Ratios reads what `go test -bench` prints and writes a table of the benchmarks
// that have a side "ours" and another to compare it with ("peer", or a baseline):
// both figures and their ratio, which is above 1 where ours is better.
//
// Everything it reads it also passes on, to standard error.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
)

func main() {
	rows, err := read(io.TeeReader(os.Stdin, os.Stderr))
	if err == nil {
		err = write(os.Stdout, rows)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

// figure is one measurement of one side of a benchmark.
type figure struct{ benchmark, side, unit string }

// table is all figures, and their order.
type table struct {
	order  []figure
	values map[figure]float64
}

// read collects figures. Of a benchmark measured several times the mean counts.
func read(r io.Reader) (*table, error) {
	t := &table{values: map[figure]float64{}}
	counts := map[figure]float64{}
	reader := benchfmt.NewReader(r, "standard input")
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // other output between the results
		}
		name, parts := result.Name.Parts()
		if len(parts) > 0 && strings.HasPrefix(string(parts[len(parts)-1]), "-") {
			parts = parts[:len(parts)-1] // GOMAXPROCS
		}
		if len(parts) == 0 {
			continue
		}
		last := len(parts) - 1
		benchmark := string(name)
		for _, p := range parts[:last] {
			benchmark += string(p)
		}
		for _, v := range result.Values {
			f := figure{benchmark, strings.TrimPrefix(string(parts[last]), "/"), v.Unit}
			if counts[f]++; counts[f] == 1 {
				t.order = append(t.order, f)
			}
			t.values[f] += (v.Value - t.values[f]) / counts[f]
		}
	}
	return t, reader.Err()
}

const ours = "ours"

func write(w io.Writer, t *table) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "benchmark\tunit\tours\tother\tratio\tbeside\t")
	for _, f := range t.order {
		mine, compared := t.values[figure{f.benchmark, ours, f.unit}]
		if f.side == ours || !compared {
			continue
		}
		other := t.values[f]
		ratio := other / mine // less is better
		if strings.HasSuffix(f.unit, "/s") {
			ratio = mine / other
		}
		fmt.Fprintf(out, "%s\t%s\t%.4g\t%.4g\t%.2f\t%s\t\n", f.benchmark, f.unit, mine, other, ratio, f.side)
	}
	return out.Flush()
}
