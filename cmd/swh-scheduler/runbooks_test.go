package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// All commands, options, tables and columns in the runbooks exist.
func TestRunbooksCanBeFollowed(t *testing.T) {
	t.Parallel()
	page := string(testenv.Read(t, filepath.Join("..", "..", "docs", "how-to", "runbooks.md")))
	conn := testenv.Connect(t, testenv.Database(t))
	ofOurs := regexp.MustCompile(`^(?:swh-scheduler (?:-C FILE )?|(?:celery-monitor|lanes|shares|simulator|start-\S+) )`)
	commands, statements := 0, 0
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(page, -1) {
		switch text := m[1]; {
		case strings.HasPrefix(text, "select "):
			statements++
			testenv.Exec(t, conn, strings.ReplaceAll(text, "PID", "0"))
		case ofOurs.MatchString(text):
			commands++
			text = regexp.MustCompile("^swh-scheduler |-C FILE ").ReplaceAllString(text, "")
			name := regexp.MustCompile(`^[a-z-]+(?: [a-z][a-z-]*)*`).FindString(text) // without options and arguments
			args := strings.Fields(strings.Replace(text, "--lanes", "--lanes FILE", 1))
			if r := ours(t, append(args, "--help")...); r.code != 0 || !strings.Contains(r.stdout, "Usage: swh-scheduler "+name+" ") {
				t.Errorf("swh-scheduler %s: %+v", text, r)
			}
		}
	}
	if commands < 10 || statements < 5 {
		t.Errorf("%d commands and %d statements", commands, statements)
	}
}
