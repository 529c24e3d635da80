package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// The tests and benchmarks that pages name as evidence are there.
func TestNamedTestsAreThere(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (path == ".git" || path == "bin") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`).FindAllSubmatch(testenv.Read(t, filepath.Join("..", path)), -1) {
				declared[string(m[1])] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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
