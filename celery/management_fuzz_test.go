package celery

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/service"
)

type answering func() *http.Response

func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

// Any response of the management API becomes counts without overflow, a limit, or an error without the password.
func FuzzManagementAnswers(f *testing.F) {
	for _, body := range []string{
		`{"messages_ready": 5, "messages_unacknowledged": 3, "consumer_details": [{"ack_required": true, "prefetch_count": 0, "channel_details": {"name": "c"}}]}`,
		`{"messages_ready": -5, "messages_unacknowledged": 9223372036854775807, "consumer_details": [{"ack_required": true, "prefetch_count": 9223372036854775807, "channel_details": []}]}`,
		`{"consumer_details": [{"ack_required": true, "prefetch_count": -4}]}`, `[]`, `null`, `{`, `{"messages_ready": 1e3}`,
	} {
		f.Add(200, body, `[{"name": "c", "global_prefetch_count": 10}]`)
	}
	f.Add(404, "", "")
	f.Add(503, "no", `[{"name": "c", "global_prefetch_count": -1}]`)
	b, err := ParseBroker("amqp://user:hunter2hunter2@127.0.0.1:5672/v", false, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, queue, channels string) {
		if status < 200 || status > 599 || status >= 300 && status < 400 {
			return
		}
		answers := []string{queue, channels}
		m := newManagement(b, "", time.Minute, service.NewService(slog.New(slog.DiscardHandler), ""))
		defer m.close()
		m.client.Transport = answering(func() *http.Response {
			body := answers[0]
			answers = answers[1:]
			return &http.Response{StatusCode: status, Status: "status", Body: io.NopCloser(strings.NewReader(body))}
		})
		stats, err := m.queue(t.Context(), "q")
		if err != nil {
			if strings.Contains(err.Error(), "hunter2hunter2") {
				t.Errorf("the password shows: %v", err)
			}
			return
		}
		if !stats.known() {
			return
		}
		if *stats.Ready < 0 || *stats.Unacknowledged < 0 || *stats.Ready+*stats.Unacknowledged < 0 {
			t.Errorf("%q: %+v", queue, stats)
		}
		if limit, known := m.prefetch(t.Context(), stats, StatsAge); limit < 0 || known && limit > len(stats.Consumers)<<16 {
			t.Errorf("%q and %q: limit %d", queue, channels, limit)
		}
	})
}
