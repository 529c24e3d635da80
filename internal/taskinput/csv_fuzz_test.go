package taskinput

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

// Each line of a file of tasks is a task that can be stored, or an error that names the line. With an error, no task
// is returned.
func FuzzTaskFile(f *testing.F) {
	for _, text := range []string{
		"load-git,[],{},2030-01-01\n", "load-git,,,\n", "swh.git,[1],\"{\"\"url\"\": \"\"x\"\"}\",2030\n\nx,[],{},", "load-git,{},[],now\r\n",
		`load-git,"[""\u0000""]",{},2030-01-01`,
	} {
		f.Add(text, false)
		f.Add(text, true)
	}
	types := []model.TaskType{{Type: "load-git", BackendName: "swh.git"}, {Type: "list", BackendName: "load-git"}}
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
		tasks, err := ReadTasks(records, columns, types, time.Unix(0, 0))
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
