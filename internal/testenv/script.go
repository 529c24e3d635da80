package testenv

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Script is a Python program that answers each line of its input with a line, or serves until its input ends.
type Script struct {
	in   io.WriteCloser
	out  *bufio.Reader
	Stop func() // closes its input and waits for its end, as the end of the test does
}

// failer is a *testing.T, *testing.B or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// StartScript starts Python with these arguments, in an environment (nil: the test's own). The test fails if its exit
// code isn't 0. Its standard error is in the test's output.
func StartScript(t testing.TB, environment []string, args ...string) *Script {
	t.Helper()
	cmd := exec.Command(Python(t), args...)
	cmd.Env, cmd.Stderr = environment, t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", strings.Join(args, " "), err)
		}
	})
	t.Cleanup(stop)
	return &Script{in, bufio.NewReader(out), stop}
}

// Line returns the next line of the script's output, without its end.
func (s *Script) Line(t failer) string {
	t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("Python does not answer: %v", err)
	}
	return strings.TrimSpace(line)
}

// Say writes a line, and returns the answer.
func (s *Script) Say(t failer, line string) string {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatalf("Python does not listen: %v", err)
	}
	return s.Line(t)
}

// Ask writes a question and reads the answer, both as JSON.
func (s *Script) Ask(t failer, question, answer any) {
	t.Helper()
	line, err := json.Marshal(question)
	if err != nil {
		t.Fatalf("%v", err)
	}
	said := s.Say(t, string(line))
	if err := json.Unmarshal([]byte(said), answer); err != nil {
		t.Fatalf("Python answered %q: %v", said, err)
	}
}
