package deploy

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// The context of an image's build has every package that the program is built from, and the files it embeds.
func TestImageContextIsWhole(t *testing.T) {
	t.Parallel()
	var included []string
	for line := range strings.Lines(string(testenv.Read(t, "../.dockerignore"))) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "!"); is {
			included = append(included, name)
		}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`,
		"swh-scheduler/cmd/swh-scheduler")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	if len(files) < 100 {
		t.Errorf("the program has %d files", len(files))
	}
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(included, func(path string) bool { return name == path || strings.HasPrefix(name, path+"/") }) {
			t.Errorf(".dockerignore leaves out %s", name)
		}
	}
}
