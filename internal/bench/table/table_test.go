package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const output = `date: 2026-11-21
cores: 2
memory: 24 GiB
peer: 3.6.0
goos: linux
cpu: A processor
BenchmarkRunner/ours-2         	       1	5000000000 ns/op	     10000 tasks/s
some log line
BenchmarkRunner/ours-2         	       1	5000000000 ns/op	     20000 tasks/s
BenchmarkRunner/peer-2         	       1	15000000000 ns/op	      5000 tasks/s
BenchmarkGrab/origins=100000/dry/lag-2	       1	 0 ns/op	  2.5 ours-ms	 80 peer-ms	 32 ratio
BenchmarkSmallCalls-2          	       1	 0 ns/op	  9000 calls/s	  600 peer-calls/s	 1.5 p99-ms	 30 peer-p99-ms
BenchmarkSort/ours-2           	    1000	    1000 ns/op
BenchmarkSort/bare-2           	    1000	    2000 ns/op
BenchmarkDecode-2              	    1000	    1000 ns/op
PASS
`

const wanted = `| work | unit | ours | Python | ratio |
|---|---|---:|---:|---:|
| runner, 50,000 ready tasks | s | 5.00 | 15.0 | 3.00 |
| … | tasks/s | 15,000 | 5,000 | 3.00 |
| grab of 1,000 visits, origins=100000, dry, lag | ms | 2.50 | 80.0 | 32.0 |
| RPC, small calls from 16 clients | calls/s | 9,000 | 600 | 15.0 |
| … | ms, 99 of 100 | 1.50 | 30.0 | 20.0 |
| Sort (beside: bare) | s | 0.00000100 | 0.00000200 | 2.00 |
`

// A rate is better the higher it is, anything else the lower; what has only one
// side, and other output, is left out; what was measured several times is averaged.
// The README's table is replaced, and nothing else of it, and says on what machine
// it was.
func TestTable(t *testing.T) {
	t.Parallel()
	readme := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		if err := os.WriteFile(readme, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# Title\n" + begin + "old\n" + end + "after\n")
	var text bytes.Buffer
	if err := run(strings.NewReader(output), &text, []string{readme}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(got), "\n\n")
	for _, fact := range []string{"# Title\n" + begin, "2026-11-21", "2 cores", "24 GiB", "swh.scheduler 3.6.0", "A processor"} {
		if !strings.Contains(head, fact) {
			t.Errorf("%q is not said in %q", fact, head)
		}
	}
	if diff := cmp.Diff(wanted+end+"after\n", rest); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"runner, 50,000 ready tasks", "15,000", "swh.scheduler 3.6.0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}

	// Nothing to compare, or nowhere to put it: the file stays.
	if err := run(strings.NewReader("BenchmarkDecode-2 1000 1000 ns/op\n"), &text, []string{readme}); err == nil {
		t.Error("no error without a comparison")
	}
	write("# Title\n")
	if err := run(strings.NewReader(output), &text, []string{readme}); err == nil {
		t.Error("no error without markers")
	}
	if got, err := os.ReadFile(readme); err != nil || string(got) != "# Title\n" {
		t.Errorf("the file became %q, %v", got, err)
	}
}
