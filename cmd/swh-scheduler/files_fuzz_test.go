package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
)

// Each line of a file of tasks becomes a task that can be stored, or an error that
// names the line; then no task comes back.
func FuzzTaskFile(f *testing.F) {
	for _, text := range []string{
		"load-git,[],{},2030-01-01\n", "load-git,,,\n", "swh.git,[1],\"{\"\"url\"\": \"\"x\"\"}\",2030\n\nx,[],{},", "load-git,{},[],now\r\n",
		`load-git,"[""\u0000""]",{},2030-01-01`,
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	types := []scheduler.TaskType{{Type: "load-git", BackendName: "swh.git"}, {Type: "list", BackendName: "load-git"}}
	line := regexp.MustCompile(`^line (\d+): `)
	f.Fuzz(func(t *testing.T, text string, policy bool) {
		if !utf8.ValidString(text) {
			return // refused before
		}
		columns := []string{"type", "args", "kwargs", "next_run"}
		if policy {
			columns[3] = "policy"
		}
		records := pytext.ReadCSV(text, ',')
		tasks, err := readTasks(records, columns, types, time.Unix(0, 0))
		if err != nil {
			problems := strings.Split(err.Error(), "\n")
			if len(problems) < 2 || len(problems) > mostProblems+1 || tasks != nil {
				t.Errorf("%q: %d tasks and %q", text, len(tasks), problems)
			}
			for _, problem := range problems[:len(problems)-1] {
				m := line.FindStringSubmatch(problem)
				if m == nil || !slices.ContainsFunc(records, func(r pytext.CSVRecord) bool { return m[1] == strconv.Itoa(r.Line) }) {
					t.Errorf("%q: %q names no line of the file", text, problem)
				}
			}
			return
		}
		if len(tasks) != len(records) {
			t.Errorf("%q: %d tasks of %d records", text, len(tasks), len(records))
		}
		for _, task := range tasks {
			var args []json.RawMessage
			var kwargs map[string]json.RawMessage
			if json.Unmarshal(task.Arguments.Args, &args) != nil || json.Unmarshal(task.Arguments.Kwargs, &kwargs) != nil || args == nil || kwargs == nil {
				t.Errorf("%q: arguments %s %s", text, task.Arguments.Args, task.Arguments.Kwargs)
			}
			if task.Type != "load-git" && task.Type != "list" || task.NextRun.Year() < 1 || task.NextRun.Year() > 9999 {
				t.Errorf("%q: %+v", text, task)
			}
		}
	})
}

// Each line of a file of origins that is not blank becomes one message with its
// first words, in order; or the error names the line.
func FuzzOriginFile(f *testing.F) {
	for _, text := range []string{"https://a/b\n\n  https://c d\r\n", "https://github.com/x", "a\xff\n", "a\x00b\u2028c", strings.Repeat("x", 5000)} {
		for _, taskType := range []string{"load-git", "load-git-large", "load-hg-bitbucket", "load-svn"} {
			f.Add(text, taskType, int64(-1))
		}
		f.Add(text, "load-git", int64(1))
	}
	f.Fuzz(func(t *testing.T, text, taskType string, limit int64) {
		form, err := formOf(taskType, json.RawMessage(`{"type": "git"}`))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := newApp(&out, io.Discard)
		a.log = slog.New(slog.DiscardHandler)
		sender := &fileSender{app: a, queue: "q", taskName: "n", args: json.RawMessage("[]"), form: form, dryRun: true, limit: limit, left: limit}
		err = sender.run(t.Context(), strings.NewReader(text))
		want := 0
		for i, line := range strings.Split(text, "\n") {
			if len(strings.Fields(line)) == 0 {
				continue
			}
			if limit >= 0 && int64(want) >= limit {
				break
			}
			if !utf8.ValidString(line) {
				if err == nil || err.Error() != "line "+strconv.Itoa(i+1)+" is not UTF-8" {
					t.Errorf("%q: %v", text, err)
				}
				return
			}
			want++
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got := strings.Count(out.String(), "** DRY-RUN ** Call app.send_task with: {'name': 'n', 'task_id': '"); got != want {
			t.Errorf("%q: %d messages, want %d:\n%s", text, got, want, out.String())
		}
	})
}

// A line that is no text, or too long, is named.
func TestOriginFileNamesTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://a\n\nhttps://b\xff\n":                         "line 3 is not UTF-8",
		"https://a\n" + strings.Repeat("x", longestLine) + "y": "line 2: bufio.Scanner: token too long",
	} {
		form, err := formOf("load-git", json.RawMessage("{}"))
		if err != nil {
			t.Fatal(err)
		}
		sender := &fileSender{app: newApp(io.Discard, io.Discard), form: form, args: json.RawMessage("[]"), dryRun: true, limit: -1, left: -1}
		if err := sender.run(t.Context(), strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
