package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// As benchstat prints it.
const output = `date: 2026-11-21
cores: 2
memory: 24 GiB
"system: Debian, a new one"
peer: 3.6.0
goos: linux
cpu: A processor
,ours,,peer,,,,bare,,,,,,,
,sec/op,CI,sec/op,CI,vs base,P,sec/op,CI,vs base,P,sec/op,CI,vs base,P
Runner,5,∞,15.000000000000002,∞,~,p=0.667 n=2+1
Sort,1.0000000000000002e-06,∞,,,,,2.0000000000000003e-06,∞,~,p=1.000 n=1
Decode,,,,,,,,,,,1.0000000000000002e-06,∞
geomean,0.002236067977499791,,15,,+200.00%,,2.000000000000001e-06,,+100.00%,,1.0000000000000004e-06,,?,

,ours,,peer,,,
,tasks/s,CI,tasks/s,CI,vs base,P
Runner,15000,∞,5000,∞,~,p=0.667 n=2+1
geomean,15000.000000000004,,5000.000000000004,,-66.67%,

,ours,,peer,,,
,ms,CI,ms,CI,vs base,P
Grab/origins=100000/dry/lag,2.5,∞,80,∞,~,p=1.000 n=1
geomean,2.5,,79.99999999999997,,+3100.00%,

,ours,,peer,,,
,calls/s,CI,calls/s,CI,vs base,P
SmallCalls,9000,∞,600,∞,~,p=1.000 n=1
geomean,9000.000000000004,,599.9999999999999,,-93.33%,

,ours,,peer,,,
,p99-ms,CI,p99-ms,CI,vs base,P
SmallCalls,1.5,∞,30,∞,~,p=1.000 n=1
geomean,1.5,,30.000000000000004,,+1900.00%,
`

const wanted = `| work | unit | ours | Python | ratio |
|---|---|---:|---:|---:|
| runner, 50,000 ready tasks | s | 5.00 | 15.0 | 3.00 |
| … | tasks/s | 15,000 | 5,000 | 3.00 |
| Sort (beside: bare) | s | 0.00000100 | 0.00000200 | 2.00 |
| grab of 1,000 visits, origins=100000, dry, lag | ms | 2.50 | 80.0 | 32.0 |
| RPC, small calls from 16 clients | calls/s | 9,000 | 600 | 15.0 |
| … | ms, 99 of 100 | 1.50 | 30.0 | 20.0 |
`

// A rate is better the higher it is, anything else the lower; what has only one
// side is left out; what belongs to a benchmark is together.
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
	for _, fact := range []string{"# Title\n" + begin, "2026-11-21", "2 cores", "24 GiB", "Debian, a new one", "swh.scheduler 3.6.0", "A processor"} {
		if !strings.Contains(head, fact) {
			t.Errorf("%q is not said in %q", fact, head)
		}
	}
	if diff := cmp.Diff(wanted+end+"after\n", rest); diff != "" {
		t.Error(diff)
	}
	if "# Title\n"+begin+text.String()+end+"after\n" != string(got) {
		t.Errorf("what was printed is not what is in the file:\n%s", &text)
	}

	// Nothing to compare, or nowhere to put it: the file stays.
	if err := run(strings.NewReader(",,\n,sec/op,CI\nDecode,1e-06,∞\n"), &text, []string{readme}); err == nil {
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
