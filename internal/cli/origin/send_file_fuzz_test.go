package origin

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/taskinput"
)

// Each line of a file of origins that isn't blank becomes one message with the line's first words, in order. Otherwise
// the error has the line's number.
func FuzzOriginFile(f *testing.F) {
	for _, text := range []string{"https://a/b\n\n  https://c d\r\n", "https://github.com/x", "a\xff\n", "a\x00b\u2028c", strings.Repeat("x", 5000)} {
		for _, taskType := range []string{"load-git", "load-git-large", "load-hg-bitbucket", "load-svn"} {
			f.Add(text, taskType, int64(-1))
		}
		f.Add(text, "load-git", int64(1))
	}
	f.Fuzz(func(t *testing.T, text, taskType string, limit int64) {
		form, err := taskinput.FormOf(taskType, json.RawMessage(`{"type": "git"}`))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := command.New("", &out, io.Discard)
		a.Log = slog.New(slog.DiscardHandler)
		sender := &fileSender{fileOptions: fileOptions{dryRun: true, limit: limit}, app: a, taskType: model.TaskType{BackendName: "n"}, queue: "q", args: json.RawMessage("[]"), form: form, left: limit}
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

// A line that isn't valid text, or is too long, is an error with the line's number.
func TestOriginFileNamesTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://a\n\nhttps://b\xff\n":                         "line 3 is not UTF-8",
		"https://a\n" + strings.Repeat("x", longestLine) + "y": "line 2: bufio.Scanner: token too long",
	} {
		form, err := taskinput.FormOf("load-git", json.RawMessage("{}"))
		if err != nil {
			t.Fatal(err)
		}
		sender := &fileSender{fileOptions: fileOptions{dryRun: true, limit: -1}, app: command.New("", io.Discard, io.Discard), form: form, args: json.RawMessage("[]"), left: -1}
		if err := sender.run(t.Context(), strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
