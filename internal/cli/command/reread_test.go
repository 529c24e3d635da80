package command

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// An unchanged configuration is not read again. A changed one is read once two calls find the same content.
func TestReread(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scheduler.yml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("scheduler: {cls: postgresql, db: host=a}\n")
	a := New("", io.Discard, io.Discard)
	a.Globals.configFile = file
	cmd := &cobra.Command{}
	if err := a.LoadConfig(cmd); err != nil {
		t.Fatal(err)
	}
	reread := a.Reread(cmd)
	read := func(want bool) {
		t.Helper()
		c, err := reread()
		if err != nil || (c != nil) != want {
			t.Fatalf("read again: %t, want %t; error %v", c != nil, want, err)
		}
	}
	for range 3 {
		read(false)
	}
	write("scheduler: {cls: postgresql, db: host=other}\n")
	read(false)
	read(true)
	read(false)
}
