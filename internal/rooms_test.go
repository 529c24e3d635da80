package internal_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// tools are the rooms that only tests, demos and benchmarks use.
var tools = []string{"internal/testenv", "internal/bench", "test", "deploy"}

// imports returns the packages of this module by directory, with the directories of
// those that each imports outside its tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Module", "./...")
	cmd.Dir = ".."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	packages := map[string][]string{}
	for list := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
			Module     struct{ Path string }
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		directory := strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")
		packages[directory] = nil
		for _, i := range p.Imports {
			if d, ours := strings.CutPrefix(i, p.Module.Path+"/"); ours {
				packages[directory] = append(packages[directory], d)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return packages
}

// docs/devel/packages.md lists every room once, and its picture shows where imports go.
func TestRooms(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, filepath.Join("..", "docs", "devel", "packages.md"))
	_, text, _ := strings.Cut(string(page), "\n## Rooms\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var rooms []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		rooms = append(rooms, m[1])
	}
	picture := strings.Split(strings.Replace(text, "```text", "```", 1), "```")
	if len(picture) != 3 {
		t.Fatal("there is not one picture")
	}
	level := map[string]int{}
	for n, line := range strings.Split(strings.TrimSpace(picture[1]), "\n") {
		for _, room := range strings.Fields(line) {
			level[room] = n
		}
	}
	for _, room := range rooms {
		if _, drawn := level[room]; drawn == slices.Contains(tools, room) {
			t.Errorf("%s: in the picture: %v", room, drawn)
		}
	}
	if len(level)+len(tools) != len(rooms) {
		t.Errorf("%d rooms are drawn, %d are tools, %d are listed", len(level), len(tools), len(rooms))
	}

	packages := imports(t)
	roomOf := func(directory string) string { // the longest that directory is in
		room := ""
		for _, r := range rooms {
			if (directory == r || strings.HasPrefix(directory, r+"/")) && len(r) > len(room) {
				room = r
			}
		}
		return room
	}
	for directory, imported := range packages {
		from := roomOf(directory)
		if directory == "internal" { // this test
			continue
		}
		if from == "" {
			t.Errorf("%s is not listed", directory)
			continue
		}
		for _, i := range imported {
			to := roomOf(i)
			switch {
			case from == to || slices.Contains(tools, from):
			case slices.Contains(tools, to):
				t.Errorf("%s imports %s, which is for tests", directory, i)
			case level[to] < level[from] || level[to] == level[from] && level[from] == level["runner"]:
				t.Errorf("%s imports %s", directory, i)
			}
		}
	}
	for _, room := range rooms {
		if _, err := os.Stat(filepath.Join("..", room)); err != nil {
			t.Error(err)
		}
	}
}
