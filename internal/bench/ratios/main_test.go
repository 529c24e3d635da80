package main

import (
	"strings"
	"testing"
)

// A rate is better the higher it is, anything else the lower; benchmarks with one
// side, and other output, are left out; repeated ones are averaged.
func TestRatios(t *testing.T) {
	const output = `goos: linux
BenchmarkRunner/ours-2         	       1	5000000000 ns/op	     10000 tasks/s
some log line
BenchmarkRunner/ours-2         	       1	5000000000 ns/op	     20000 tasks/s
BenchmarkRunner/peer-2         	       1	15000000000 ns/op	      5000 tasks/s
BenchmarkGrab/git/100000/ours-2	       1	 2000000 ns/op
BenchmarkGrab/git/100000/peer-2	       1	80000000 ns/op
BenchmarkDecode-2              	    1000	    1000 ns/op
PASS
`
	rows, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := write(&got, rows); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(got.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"benchmark unit ours other ratio beside",
		"Runner sec/op 5 15 3.00 peer",
		"Runner tasks/s 1.5e+04 5000 3.00 peer",
		"Grab/git/100000 sec/op 0.002 0.08 40.00 peer",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
