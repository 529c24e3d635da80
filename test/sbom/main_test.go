package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The bill of materials of a program lists every linked module with its version and checksum, and Go itself. It is
// the same each time, and CycloneDX's own reader accepts it.
func TestEveryModuleIsListed(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "swh-scheduler")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.release=1.2.3", "-o", program, "./cmd/swh-scheduler")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := write(w, program); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program has two bills of materials")
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Version != "1.2.3" || len(*c.Hashes) != 1 {
		t.Errorf("the program is %+v", c)
	}
	listed := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		listed[c.PackageURL] = c
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) < 20 || len(listed) != len(info.Deps)+1 || listed["pkg:golang/std@"+info.GoVersion[len("go"):]].Name == "" {
		t.Errorf("%d components of %d modules and Go", len(listed), len(info.Deps))
	}
	for _, m := range info.Deps {
		if c := listed["pkg:golang/"+m.Path+"@"+m.Version]; c.Hashes == nil {
			t.Errorf("%s %s is %+v", m.Path, m.Version, c)
		}
	}
}

// Files that are no Go programs are refused.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(new(bytes.Buffer), path); err == nil {
		t.Error("a text has a bill of materials")
	}
}
