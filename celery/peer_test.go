package celery_test

import (
	"encoding/json"
	"testing"

	"swh-scheduler/internal/testenv"
)

// peer is a Python process that has Celery with the Python scheduler's configuration.
type peer struct {
	t testing.TB
	*testenv.Script
}

func startPeer(t testing.TB, broker string) *peer {
	t.Helper()
	return &peer{t, testenv.StartScript(t, nil, "testdata/peer.py", broker)}
}

// ask sends one request and decodes the response. A Python exception is returned as text.
func (p *peer) ask(request map[string]any, answer any) (pythonError string) {
	p.t.Helper()
	var got struct {
		Answer json.RawMessage
		Error  string
	}
	p.Ask(p.t, request, &got)
	if got.Error == "" && answer != nil {
		if err := json.Unmarshal(got.Answer, answer); err != nil {
			p.t.Fatalf("Python answered %q: %v", got.Answer, err)
		}
	}
	return got.Error
}

// message is a message as Python reads it, including which properties are set.
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
