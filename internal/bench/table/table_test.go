package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// output is the output of a run: facts, results of sides, and other lines.
const output = `date: 2026-11-21
cores: 2
memory: 24 GiB
system: Debian, a new one
postgresql: 15.20
fsync: on
fullpagewrites: on
peer: 3.6.0
goos: linux
cpu: A processor
BenchmarkRunner/side=ours-2         	       1	         5.000 runs	         9350 tasks/s	     9900 tasks/s-max	      9100 tasks/s-min
BenchmarkRunner/side=peer-2         	       1	         5.000 runs	         2675 tasks/s	     2700 tasks/s-max	      2600 tasks/s-min
BenchmarkRunner/side=peer-beside-ours-2	       1	         5.000 runs	         2140 tasks/s	     2200 tasks/s-max	      2100 tasks/s-min
BenchmarkRunner/side=ours-by-the-door-2	       1	         5.000 runs	         9000 tasks/s	     9900 tasks/s-max	      8900 tasks/s-min
BenchmarkRunner/side=peer-by-its-rpc-server-2	       1	         5.000 runs	         900.0 tasks/s	     910.0 tasks/s-max	      890.0 tasks/s-min
BenchmarkRunner/side=limit:bare_loop-2	       1	         5.000 runs	         14000 tasks/s	     14100 tasks/s-max	      13900 tasks/s-min
--- BENCH: BenchmarkRunner
    a log line
BenchmarkDecode-2                   	       1	        1000 ns/op
BenchmarkClaims/side=plain-2        	       1	       100.0 ms	       110.0 ms-max	        90.00 ms-min	         5.000 runs
BenchmarkClaims/side=shares_and_lanes-2	       1	       150.0 ms	       160.0 ms-max	        140.0 ms-min	         5.000 runs
PASS
`

const wanted = `| work | unit | ours | limit | Python | ratio |
|---|---|---:|---:|---:|---:|
| runner, 50,000 ready tasks | tasks/s | 9,350 (9,100–9,900) | 14,000 bare loop | 2,675 (2,600–2,700) | 3.50 |

| work | unit | with | without | with it | times |
|---|---|---|---:|---:|---:|
| runner, 50,000 ready tasks | tasks/s | our triggers (Python) | 2,675 (2,600–2,700) | 2,140 (2,100–2,200) | 1.25 |
| claim of 10,000 visits | ms | shares and lanes | 100 (90.0–110) | 150 (140–160) | 1.50 |

| work | unit | with the database | by the door | door/database | Python by its RPC server | ratio |
|---|---|---:|---:|---:|---:|---:|
| runner, 50,000 ready tasks | tasks/s | 9,350 (9,100–9,900) | 9,000 (8,900–9,900) | 0.963 | 900 (890–910) | 10.0 |
`

// Higher is better for a rate, lower for other units. Benchmarks with one side are omitted. The tables name the
// machine.
func TestTables(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := run(strings.NewReader(output), &text, ""); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(text.String(), "\n\n")
	for _, fact := range []string{"2026-11-21", "2 cores", "24 GiB", "Debian, a new one", "15.20 (fsync on)", "swh.scheduler 3.6.0", "A processor"} {
		if !strings.Contains(head, fact) {
			t.Errorf("%q is not said in %q", fact, head)
		}
	}
	if diff := cmp.Diff(wanted, rest); diff != "" {
		t.Error(diff)
	}
	alone := "BenchmarkDecode-2 \t 1\t 1000 ns/op\n"
	text.Reset()
	if err := run(strings.NewReader(alone), &text, ""); err != nil || text.Len() > 0 {
		t.Errorf("without a comparison: %v, %q", err, &text)
	}
	if err := run(strings.NewReader(alone), &text, t.TempDir()); err == nil {
		t.Error("documents are written without a comparison")
	}
}

// whole returns the output of a complete run.
func whole() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(output, "BenchmarkRunner", "BenchmarkOther"))
	result := func(benchmark, side, figures string) {
		fmt.Fprintf(&b, "Benchmark%s/side=%s-2\t1\t%s 5.000 runs\n", benchmark, side, figures)
	}
	units := map[string]string{}
	for _, row := range slices.Concat(inReadme, inPage) {
		units[row.benchmark] += "10.0 " + row.unit + " "
	}
	for _, benchmark := range slices.Sorted(maps.Keys(units)) {
		result(benchmark, "ours", units[benchmark])
		result(benchmark, "peer", units[benchmark])
	}
	for _, title := range titles {
		result(title.benchmark+"/more", "ours", "1.0 ms")
	}
	for i, size := range []string{"1000", "10000", "100000"} {
		for _, part := range []string{"dry/a", "dry/b", "real/a", "listing", "journal"} {
			result("Grab/origins="+size+"/"+part, "ours", "7.0 ms")
			result("Grab/origins="+size+"/"+part, "peer", fmt.Sprintf("%d ms", 50*(i+1)))
		}
		result("Grab/origins="+size+"/build", "ours", fmt.Sprintf("%d build-s", 1+i))
	}
	return b.String()
}

// The documents get the tables of a complete run, between their markers, and a plot. A run without a benchmark or a
// row, with too few runs, or on a database that doesn't sync writes nothing.
func TestOnlyAWholeRunIsWritten(t *testing.T) {
	t.Parallel()
	pages := []string{"README.md", "docs/explanation/performance.md", "docs/devel/evidence/measurements.md"}
	const untouched = "# Title\n" + begin + "old\n" + end + "after\n"
	documents := func(content string) (directory string) {
		directory = t.TempDir()
		for _, name := range pages {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(directory, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return directory
	}
	read := func(directory, name string) string {
		content, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(content)
	}

	directory := documents(untouched)
	if err := run(strings.NewReader(whole()), io.Discard, directory); err != nil {
		t.Fatal(err)
	}
	for i, rows := range []int{len(inReadme) + 2, len(inPage) + 2, 30} {
		name := pages[i]
		content := read(directory, name)
		if !strings.HasPrefix(content, "# Title\n"+begin+"Measured on") || !strings.HasSuffix(content, end+"after\n") || strings.Contains(content, "old") {
			t.Errorf("%s became\n%s", name, content)
		}
		if got := strings.Count(content, "\n|"); got < rows || i == 0 && got != rows {
			t.Errorf("%s has %d rows, want %d", name, got, rows)
		}
	}
	plot := read(directory, "docs/explanation/performance.svg")
	if err := xml.Unmarshal([]byte(plot), new(struct{})); err != nil || strings.Contains(plot, "NaN") || strings.Count(plot, "<circle") != 35 {
		t.Errorf("%v: %s", err, plot)
	}

	for name, broken := range map[string]string{
		"no fsync":          strings.Replace(whole(), "fsync: on", "fsync: off", 1),
		"torn pages":        strings.Replace(whole(), "fullpagewrites: on", "fullpagewrites: off", 1),
		"few runs":          strings.Replace(whole(), "5.000 runs", "2.000 runs", 1),
		"no benchmark":      strings.ReplaceAll(whole(), "BenchmarkIdlePass", "BenchmarkOther"),
		"no row for README": strings.ReplaceAll(whole(), "p99-ms", "p98-ms"),
	} {
		directory := documents(untouched)
		if err := run(strings.NewReader(broken), io.Discard, directory); err == nil {
			t.Errorf("%s: no error", name)
		}
		if slices.ContainsFunc(pages, func(page string) bool { return read(directory, page) != untouched }) || read(directory, "docs/explanation/performance.svg") != "" {
			t.Errorf("%s: a file was written", name)
		}
	}
	if err := run(strings.NewReader(whole()), io.Discard, documents("# Title\n")); err == nil {
		t.Error("no error without markers")
	}
}

// make bench-readme finds each of the table's benchmarks, however packages move.
func TestBenchmarksOfTheTableAreThere(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{}
	for _, title := range titles {
		missing[title.benchmark] = true
	}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range benchmarkFunction.FindAllStringSubmatch(string(source), -1) {
			delete(missing, found[1])
		}
		return err
	})
	if err != nil || len(missing) > 0 {
		t.Errorf("no package has the benchmarks %v; %v", slices.Sorted(maps.Keys(missing)), err)
	}
}

var benchmarkFunction = regexp.MustCompile(`(?m)^func Benchmark(\w+)\(`)
