package maintenance

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// appendLines writes regular files only, neither through links nor to pipes without a reader.
func TestArchivesFollowNoLinks(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "tasks-2026-01-01.jsonl")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("its own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, because string) {
		t.Helper()
		if err := appendLines(path, []string{"{}"}); err == nil || !strings.Contains(err.Error(), path+" "+because) {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []string{victim, filepath.Join(directory, "made")} {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		refused("a link", "is a symbolic link")
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a pipe", "is not a regular file")
	if text, err := os.ReadFile(victim); err != nil || string(text) != "its own\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(directory, "made")); err == nil {
		t.Error("a file was created through a link")
	}
	for range 2 {
		if err := appendLines(path, []string{"{}"}); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{}\n{}\n" {
		t.Errorf("%q, %v", text, err)
	}
}
