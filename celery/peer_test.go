package celery_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"testing"

	"swh-scheduler/internal/testenv"
)

// peer is a Python process that has Celery with the peer's configuration.
type peer struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
}

func startPeer(t testing.TB, broker string) *peer {
	t.Helper()
	cmd := exec.Command(testenv.Python(t), "testdata/peer.py", broker)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &peer{t, in, bufio.NewReader(out)}
}

// ask sends one request and decodes its answer; the error is Python's.
func (p *peer) ask(request map[string]any, answer any) (pythonError string) {
	p.t.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.t.Fatal(err)
	}
	line, err = p.out.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("no answer from Python: %v", err)
	}
	var got struct {
		Answer json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &got); err != nil {
		p.t.Fatalf("Python answered %q: %v", line, err)
	}
	if got.Error == "" && answer != nil {
		if err := json.Unmarshal(got.Answer, answer); err != nil {
			p.t.Fatalf("Python answered %q: %v", line, err)
		}
	}
	return got.Error
}

// message is a message as Python sees it, down to which properties it has.
type message struct {
	Properties map[string]any
	Headers    map[string]any
	Body       []byte
}

func (p *peer) get(queue string) message {
	p.t.Helper()
	var m *message
	if e := p.ask(map[string]any{"operation": "get", "queue": queue}, &m); e != "" {
		p.t.Fatal(e)
	}
	if m == nil {
		p.t.Fatalf("queue %q is empty", queue)
	}
	return *m
}
