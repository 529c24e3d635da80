package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Each message of docs/how-to/errors.md is a text of this program, except those of the last table.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var program strings.Builder
	for _, room := range []string{"celery", "internal", "journal", "listener", "recurrent", "runner", "sql"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				program.Write(testenv.Read(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	texts := regexp.MustCompile("\" \\+\\s*[\"`]|` \\+\\s*[\"`]").ReplaceAllString(strings.ReplaceAll(program.String(), `\"`, `"`), "")
	page, _, found := strings.Cut(string(testenv.Read(t, filepath.Join(root, "docs", "how-to", "errors.md"))), "\n## From PostgreSQL")
	if !found {
		t.Fatal("the page has no table of other programs' messages")
	}
	messages := 0
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \|.*$`).FindAllStringSubmatch(page, -1) {
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			messages++
			for part := range strings.SplitSeq(message[1], "…") {
				part = strings.Trim(part, " ,:")
				if service, is := strings.CutSuffix(part, " failed"); is && strings.HasPrefix(service, "claiming") {
					part = service
				}
				if !strings.Contains(texts, part) {
					t.Errorf("the program prints nowhere %q", part)
				}
			}
		}
	}
	if messages < 40 {
		t.Errorf("the page has %d messages", messages)
	}
}
