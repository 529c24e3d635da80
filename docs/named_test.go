package docs_test

import (
	"regexp"
	"testing"

	"swh-scheduler/internal/testenv"
)

// The tests and benchmarks that pages name as evidence are there.
func TestNamedTestsAreThere(t *testing.T) {
	t.Parallel()
	declared := testenv.DeclaredTests(t, "..")
	named := regexp.MustCompile("`(?:go test [^`]*)?((?:Test|Benchmark|Fuzz)[A-Z]\\w+)(?:/[^`]*)?`")
	found := 0
	for _, p := range readPages(t) {
		for _, m := range named.FindAllStringSubmatch(p.whole, -1) {
			found++
			if !declared[m[1]] {
				t.Errorf("%s: there is no %s", p.path, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d tests are named", found)
	}
}
