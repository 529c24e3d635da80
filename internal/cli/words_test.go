package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/testenv"
)

// The commands that messages, pages and documents tell people to run are there.
func TestCommandsInWordsAreThere(t *testing.T) {
	t.Parallel()
	root := newRoot(command.New("", io.Discard, io.Discard))
	const top = "../.."
	told := regexp.MustCompile("(?:\\\\?\"|`|<code>)swh-scheduler ([a-z][a-z_-]*(?: [a-z][a-z_-]*)*)")
	found := 0
	for _, room := range []string{"README.md", "docs", "internal", "sql", "runner", "recurrent", "listener", "journal"} {
		err := filepath.WalkDir(filepath.Join(top, room), func(path string, entry os.DirEntry, err error) error {
			kind := filepath.Ext(path)
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || kind != ".go" && kind != ".html" && kind != ".md" {
				return err
			}
			for _, m := range told.FindAllStringSubmatch(string(testenv.Read(t, path)), -1) {
				found++
				cmd, rest, err := root.Find(strings.Fields(m[1]))
				if err != nil || cmd == root || len(rest) > 0 && cmd.HasSubCommands() {
					t.Errorf("%s: there is no command %q", path, m[0])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 50 {
		t.Errorf("%d commands are told", found)
	}
}
