package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The name of a release becomes a directory that root deletes, so other kinds of names are refused.
func TestOnDebianTakesNamesOfReleases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tools, cache := filepath.Join(dir, "tools"), filepath.Join(dir, "cache")
	kept := filepath.Join(cache, "other", "root", "kept")
	for _, name := range []string{tools, filepath.Dir(kept)} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"debootstrap", "sudo"} {
		if err := os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, release := range []string{"../other", "--help", "", "Trixie"} {
		cmd := exec.Command("./on-debian", release, "true")
		cmd.Env = append(os.Environ(), "SWH_SCHEDULER_CACHE="+cache, "PATH="+tools+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "usage: on-debian [--fresh DIRECTORY] RELEASE") {
			t.Errorf("%q: exit code %d:\n%s", release, cmd.ProcessState.ExitCode(), out)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
