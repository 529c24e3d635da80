package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"swh-scheduler/internal/testenv"
)

// collecting is an OTLP receiver.
type collecting struct {
	m   sync.Mutex
	got []*spans.Span
}

func (c *collecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request spans.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.m.Lock()
	defer c.m.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.got = append(c.got, scope.Spans...)
		}
	}
}

func (c *collecting) span(name string) *spans.Span {
	c.m.Lock()
	defer c.m.Unlock()
	for _, s := range c.got {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// From claim to outcome, a task is one trace, whose context is in its message. A worker with OpenTelemetry's
// instrumentation of Celery continues the trace.
func TestTraces(t *testing.T) {
	t.Parallel()
	receiver := &collecting{}
	server := httptest.NewServer(receiver)
	defer server.Close()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", dsn, mq.URL, mq.ManagementURL))
	conn := testenv.Connect(t, dsn)
	testenv.Exec(t, conn, `insert into task_type (type, description, backend_name) values ('work', '', 'swh.test.Sleep');
		insert into task (type, arguments, next_run, policy, status) values ('work', '{"args": [], "kwargs": {"seconds": 0}}', now(), 'oneshot', 'next_run_not_scheduled')`)
	traced := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_BSP_SCHEDULE_DELAY=100"}
	startWith(t, traced, "-C", config, "start-listener").logs(t, "reading queue")
	startWith(t, traced, "-C", config, "start-runner", "--period", "1").logs(t, "tasks claimed")

	// The message has the trace's context. It goes back into the queue for a real worker.
	awaitMessages(t, mq.URL, "swh.test.Sleep", 1)
	message, ok, err := testenv.Channel(t, mq.URL).Get("swh.test.Sleep", false)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	parent, _ := message.Headers["traceparent"].(string)
	if err := message.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	startWorkerOf(t, "traced", traced, mq.URL, "worker@traces", "swh.test.Sleep")
	wait := func(name string) *spans.Span {
		t.Helper()
		testenv.Becomes(t, "there is a span "+name, true, func() bool { return receiver.span(name) != nil })
		return receiver.span(name)
	}
	send, run, outcome := wait("send swh.test.Sleep"), wait("run/swh.test.Sleep"), wait("outcome")
	if want := fmt.Sprintf("00-%x-%x-01", send.TraceId, send.SpanId); parent != want {
		t.Errorf("traceparent %q, want %q", parent, want)
	}
	for _, s := range []*spans.Span{run, outcome} {
		if string(s.TraceId) != string(send.TraceId) || string(s.ParentSpanId) != string(send.SpanId) {
			t.Errorf("%s is not of the trace, below what was sent: %v, %v", s.Name, s, send)
		}
	}
	if !strings.Contains(fmt.Sprint(outcome.Attributes), message.CorrelationId) {
		t.Errorf("the outcome does not name the run: %v", outcome.Attributes)
	}
	if !strings.Contains(fmt.Sprint(outcome.Attributes), "uneventful") || outcome.GetStatus().GetCode() == spans.Status_STATUS_CODE_ERROR {
		t.Errorf("the outcome is %v, %v; want uneventful, and no error", outcome.Attributes, outcome.Status)
	}
}
