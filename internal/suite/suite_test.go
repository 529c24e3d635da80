package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fake plays runs of go test: the first, and the repetition. Each is a text of
// events such as "fail TestX what it says" or "fail what the package says", and
// ends as the last of them. The run beside the repetition ends when interrupted.
type fake struct {
	runs  []string
	calls chan string // the arguments of each
	first atomic.Bool
}

func (f *fake) goTest(ctx context.Context, args []string, each func(event)) error {
	all := strings.Join(args, " ")
	f.calls <- all
	text := ""
	switch {
	case strings.Contains(all, "-run="):
		text = f.runs[1]
	case f.first.CompareAndSwap(false, true):
		text = f.runs[0]
	default:
		<-ctx.Done()
		return ctx.Err()
	}
	var err error
	for line := range strings.Lines(text) {
		action, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, says, _ := strings.Cut(rest, " ")
		if !strings.HasPrefix(name, "Test") {
			name, says = "", rest
		} else {
			each(event{Action: "run", Package: "p", Test: name})
		}
		if says != "" {
			each(event{Action: "output", Package: "p", Test: name, Output: says + "\n"})
		}
		if action != "begin" {
			each(event{Action: action, Package: "p", Test: name})
		}
		if err = nil; action == "fail" {
			err = errors.New("exit status 1")
		}
	}
	return err
}

func TestSuite(t *testing.T) {
	t.Parallel()
	flaky := map[test]string{{"p", "TestX"}: "its clock"}
	const passed, failed = "pass TestX\npass TestY\npass ok  \tp\t1s", "fail TestX no answer\npass TestY\nfail FAIL\tp\t1s"
	for name, c := range map[string]struct {
		reasons map[test]string
		runs    []string
		want    string // of the error, "" if the suite passes
	}{
		"all pass":                             {flaky, []string{passed}, ""},
		"one fails":                            {nil, []string{failed}, "failed: p.TestX"},
		"one of quarantine fails, then passes": {flaky, []string{failed, "pass TestX\npass ok  \tp\t1s"}, ""},
		"one of quarantine fails twice":        {flaky, []string{failed, failed}, "p.TestX failed twice: exit status 1"},
		"it is not repeated":                   {flaky, []string{failed, "pass ok  \tp\t1s [no tests to run]"}, "p.TestX failed twice: no pass was seen"},
		"another fails, too":                   {flaky, []string{"fail TestX\nfail TestY\nfail FAIL\tp\t1s"}, "failed: p.TestY"},
		"a subtest fails":                      {flaky, []string{"fail TestX/a\nfail TestX\npass TestY\nfail FAIL\tp\t1s", passed}, ""},
		"another subtest fails":                {flaky, []string{"fail TestY/a\nfail TestY\npass TestX\nfail FAIL\tp\t1s"}, "failed: p.TestY"},
		"a race":                               {flaky, []string{"fail TestX WARNING: DATA RACE\nfail FAIL\tp\t1s"}, "failed: p (DATA RACE)"},
		"a panic":                              {flaky, []string{"fail TestX panic: nil map\nfail FAIL\tp\t1s"}, "failed: p (panic:)"},
		"a fatal error":                        {flaky, []string{"fail TestX fatal error: concurrent map writes\nfail FAIL\tp\t1s"}, "failed: p (fatal error:)"},
		"a leak beside":                        {flaky, []string{"fail TestX\nfail goleak: Errors on successful test run: found unexpected goroutines"}, "failed: p (unexpected goroutines)"},
		"a leak":                               {flaky, []string{"pass TestX\nfail found unexpected goroutines"}, "failed: p (unexpected goroutines)"},
		"a time-out":                           {flaky, []string{"fail TestX test timed out after 20m0s\nfail FAIL\tp\t1s"}, "failed: p (test timed out)"},
		"a lost message":                       {flaky, []string{"fail TestX     x_test.go:7: 3 messages are lost\nfail FAIL\tp\t1s"}, "failed: p (lost)"},
		"a message sent twice":                 {flaky, []string{"fail TestX     x_test.go:7: task 7 was sent Twice\nfail FAIL\tp\t1s"}, "failed: p (Twice)"},
		"a daemon lost a connection":           {flaky, []string{"begin TestX     level=INFO msg=\"connection lost\"\nfail TestX         tried twice\nfail FAIL\tp\t1s", passed}, ""},
		"a name says lost":                     {flaky, []string{"fail TestX/remove lost\nbegin TestX === RUN TestX/lost\nfail TestX --- FAIL: TestX/lost (0.00s)\nfail FAIL\tp\t1s", passed}, ""},
		"another never ends":                   {flaky, []string{"fail TestX\nbegin TestY\nfail FAIL\tp\t1s"}, "failed: p"},
		"the package fails, no test":           {flaky, []string{"pass TestX\nfail FAIL\tp\t1s"}, "failed: p"},
		"it doesn't build":                     {nil, []string{"fail FAIL\tp [build failed]"}, "failed: p"},
		"no such test":                         {flaky, []string{"pass TestY\npass ok  \tp\t1s"}, ".ci/quarantine: p.TestX has not run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{runs: c.runs, calls: make(chan string, 9)}
			var out strings.Builder
			err := suite{&out, f.goTest}.run(t.Context(), c.reasons, []string{"-race", "-p=4", "./..."})
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				t.Errorf("%v, want %q; output:\n%s", err, c.want, out.String())
			}
			close(f.calls)
			runs := map[string]int{}
			for call := range f.calls {
				runs[call]++
			}
			repeated := len(c.runs) > 1
			if runs["-race -p=4 ./..."] != 1+count(repeated) || runs["-race -p=4 -run=^TestX$ p"] != count(repeated) {
				t.Errorf("ran %v", runs)
			}
		})
	}
}

// The last that a failed run prints is what the failed tests say themselves: the start
// of each thing, of a test mostLines at most, and nothing of tests that pass.
func TestWhyIsLast(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("begin TestX         level=INFO msg=delivered\n", 100)
	f := &fake{calls: make(chan string, 9), runs: []string{
		"pass TestY     y_test.go:1: passes\n" +
			"begin TestX     level=INFO msg=\"it begins\"\n" +
			"begin TestX     x_test.go:7: 2 messages, want 3:\nbegin TestX         a\nbegin TestX         b\n" +
			"begin TestX     level=INFO msg=\"it ends\"\nbegin TestX         of two lines\n" +
			"fail TestX/sub     x_test.go:9: not there\n" +
			"begin TestX     main_test.go:8: log of a daemon:\n" + long +
			"fail TestX --- FAIL: TestX (0.00s)\nfail FAIL\tp\t1s"}}
	var out strings.Builder
	if err := (suite{&out, f.goTest}).run(t.Context(), nil, []string{"./..."}); fmt.Sprint(err) != "failed: p.TestX" {
		t.Error(err)
	}
	_, why, _ := strings.Cut(out.String(), "FAIL\tp\t1s\n")
	begin := "\n=== FAILED: p.TestX\n    x_test.go:7: 2 messages, want 3:\n        a\n        b\n    x_test.go:9: not there\n    main_test.go:8: log of a daemon:\n        level=INFO"
	if !strings.HasPrefix(why, begin) || strings.Count(why, "\n") > 2+mostLines {
		t.Errorf("the last that it prints is\n%s, want\n%s and so on", why, begin)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 5, 10, 23, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"":                               "map[] <nil>",
		"# a comment\n":                  "map[] <nil>",
		"p TestX 2030-05-10 its clock\n": "map[p.TestX:its clock] <nil>",
		"p TestX 2030-05-09 its clock":   "map[] f:1: expired: repair the test: p TestX 2030-05-09 its clock",
		"#\np TestX 2030-05-10":          "map[] f:2: want PACKAGE TEST DATE REASON: p TestX 2030-05-10",
		"p TestX/sub 2030-05-10 why":     "map[] f:1: want PACKAGE TEST DATE REASON: p TestX/sub 2030-05-10 why",
		"p TestX 2030-02-30 why":         `map[] f:1: parsing time "2030-02-30": day out of range`,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		reasons, err := quarantine(file, now)
		if got := strings.ReplaceAll(fmt.Sprint(reasons, " ", err), dir+"/", ""); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// The real go test: what it says of tests that fail, panic and don't build is
// understood, and its closing lines are printed.
func TestGoTest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\ngo 1.24\n",
		"a/a_test.go": "package a\nimport (\"os\"; \"testing\")\nfunc TestPasses(t *testing.T) { t.Log(\"quiet\") }\nfunc TestOnce(t *testing.T) { if os.Mkdir(\"been\", 0o700) == nil { t.Error(\"the first time\") } }\n",
		"b/b_test.go": "package b\nimport \"testing\"\nfunc TestPanics(t *testing.T) { panic(\"b\") }\n",
		"c/c_test.go": "package c\nfunc {\n",
		"d/d.go":      "package d\n",
		"e/e_test.go": "package e\nimport (\"fmt\"; \"testing\")\nfunc TestFails(t *testing.T) { t.Error(\"it\\nfails\"); fmt.Fprintln(t.Output(), \"level=INFO\"); t.Run(\"a\", func(t *testing.T) { t.Error(\"so does a\") }) }\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	reasons := map[test]string{{"m/a", "TestOnce"}: "it must"}
	for _, c := range []struct{ packages, err, says string }{
		{"./a ./d", "<nil>", "the first time|FAIL\tm/a\t|?   \tm/d\t|=== QUARANTINED, once more: m/a.TestOnce (it must)|ok  \tm/a\t"},
		{"./a ./d", "<nil>", "ok  \tm/a\t|?   \tm/d\t"},
		{"./a ./b", "failed: m/b (panic:), m/b.TestPanics", "panic: b|FAIL\tm/b\t|ok  \tm/a\t|=== FAILED: m/b.TestPanics\npanic: b"},
		{"./a ./c", "failed: m/c", "c_test.go:2|FAIL\tm/c [setup failed]|ok  \tm/a\t|=== FAILED: m/c.test\n# m/c\n"},
		{"./a ./e", "failed: m/e.TestFails", "FAIL\tm/e\t|\n=== FAILED: m/e.TestFails\n    e_test.go:3: it\n        fails\n    e_test.go:3: so does a\n"},
	} {
		var out strings.Builder
		err := suite{&out, goTest}.run(t.Context(), reasons, append([]string{"-count=1"}, strings.Fields(c.packages)...))
		for says := range strings.SplitSeq(c.says, "|") {
			if !strings.Contains(out.String(), says) || strings.Contains(out.String(), "quiet") {
				t.Errorf("%s: want %q and not \"quiet\" in\n%s", c.packages, says, out.String())
			}
		}
		if got := fmt.Sprint(err); !strings.HasPrefix(got, c.err) {
			t.Errorf("%s: %s, want %s", c.packages, got, c.err)
		}
	}
}
