package testenv

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv/throwaway"
)

var declaration = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)

// DeclaredTests returns the tests, benchmarks and fuzz targets of the repository at root, by name and as
// "directory.Name".
func DeclaredTests(t *testing.T, root string) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		directory, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range declaration.FindAllSubmatch(Read(t, path), -1) {
			declared[string(m[1])], declared[directory+"."+string(m[1])] = true, true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}

// FreePort returns a TCP port of loopback that is free now. Another program may take it before the caller does.
func FreePort(t *testing.T) string {
	t.Helper()
	ports, err := throwaway.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(ports[0])
}
