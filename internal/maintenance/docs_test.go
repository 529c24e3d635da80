package maintenance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/devel/database.md lists each job of this package by its name, and no other.
func TestJobsInTheDocs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:Job\{Name: |\bjob\(|\bname \+?= |name := )"([^"]+)"`).FindAllStringSubmatch(read(t, f), -1) {
			name := m[1]
			if strings.HasPrefix(name, " ") { // a suffix of the name before
				name = jobs[len(jobs)-1] + name
			}
			jobs = append(jobs, name)
		}
	}
	_, table, _ := strings.Cut(read(t, "../../docs/devel/database.md"), "\n## Maintenance jobs\n")
	table, _, _ = strings.Cut(table, "\n#")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(table, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, m[1])
		}
	}
	slices.Sort(jobs)
	slices.Sort(listed)
	if len(jobs) < 20 || !slices.Equal(jobs, listed) {
		t.Errorf("the code has the jobs\n%q\nand docs/devel/database.md lists\n%q", jobs, listed)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
