package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/metrics.md lists the metrics that there are, no more and no less.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(swh_scheduler_[a-z_]+)` \\| (?:gauge|counter|histogram) \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1])
	}
	name := regexp.MustCompile(`"(swh_scheduler_[a-z_]+)"`)
	var defined []string
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			defined = append(defined, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(documented)
	slices.Sort(defined)
	if diff := cmp.Diff(slices.Compact(defined), documented); diff != "" {
		t.Errorf("docs/metrics.md (-the code +the page):\n%s", diff)
	}
}
