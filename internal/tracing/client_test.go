package tracing

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Variables of traces override those of all signals. An error names the variable, without its value.
func TestSettings(t *testing.T) {
	t.Parallel()
	const prefix = "OTEL_EXPORTER_OTLP_"
	for _, c := range []struct{ variables, want string }{
		{"ENDPOINT=http://c:4318", "http://c:4318/v1/traces map[] false 10s"},
		{"ENDPOINT=https://c/base/", "https://c/base/v1/traces map[] false 10s"},
		{"ENDPOINT=http://c:4318 TRACES_ENDPOINT=http://d:1/as-is", "http://d:1/as-is map[] false 10s"},
		{"ENDPOINT=http://c HEADERS=a=b,Authorization=Basic%20x TIMEOUT=1500 COMPRESSION=gzip", "http://c/v1/traces map[A:[b] Authorization:[Basic x]] true 1.5s"},
		{"ENDPOINT=http://c COMPRESSION=gzip TRACES_COMPRESSION=none PROTOCOL=http/protobuf", "http://c/v1/traces map[] false 10s"},
		{"ENDPOINT=secret:4318", "ENDPOINT must be"},
		{"ENDPOINT=http://c HEADERS=secret", "HEADERS must be"},
		{"ENDPOINT=http://c TRACES_HEADERS=a=secret%zz", "TRACES_HEADERS must be"},
		{"ENDPOINT=http://c TIMEOUT=secret", "TIMEOUT must be"},
		{"ENDPOINT=http://c COMPRESSION=secret", "COMPRESSION must be"},
		{"ENDPOINT=http://c PROTOCOL=grpc", "PROTOCOL must be"},
		{"ENDPOINT=http://c CERTIFICATE=/nowhere", "CERTIFICATE must be"},
		{"ENDPOINT=http://c CERTIFICATE=/dev/null", "CERTIFICATE must be"},
		{"ENDPOINT=http://c CLIENT_KEY=/nowhere", "CLIENT_KEY must be"},
	} {
		variables := make(map[string]string)
		for v := range strings.FieldsSeq(c.variables) {
			name, value, _ := strings.Cut(v, "=")
			variables[prefix+name] = value
		}
		s, err := settingsOf(func(name string) string { return variables[name] })
		got := fmt.Sprint(s.url, " ", map[string][]string(s.headers), " ", s.gzip, " ", s.timeout)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s, want %s", c.variables, got, c.want)
		}
	}
}

// The client retries where the collector asks for it, and only there.
func TestUpload(t *testing.T) {
	t.Parallel()
	batch := []*spans.ResourceSpans{{SchemaUrl: "here"}}
	for _, c := range []struct {
		answers  []int // the last one repeats
		requests int
		want     string
	}{
		{[]int{200}, 1, "<nil>"},
		{[]int{503, 429, 502, 504, 202}, 5, "<nil>"},
		{[]int{503, 400}, 2, `400 Bad Request: "no"`},
		{[]int{302}, 1, "302"},
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			var got spans.TracesData
			body, err := gzip.NewReader(r.Body)
			if err == nil {
				var b []byte
				if b, err = io.ReadAll(body); err == nil {
					err = proto.Unmarshal(b, &got)
				}
			}
			if err != nil || len(got.ResourceSpans) != 1 || got.ResourceSpans[0].SchemaUrl != "here" || r.Header.Get("X-Token") != "t" {
				t.Errorf("the collector gets %v, %v, %v", r.Header, &got, err)
			}
			w.WriteHeader(c.answers[min(requests, len(c.answers))-1])
			_, _ = io.WriteString(w, "no")
		}))
		client := newClient(settings{url: server.URL, headers: http.Header{"X-Token": {"t"}}, gzip: true, timeout: time.Minute})
		client.firstDelay = 1
		err := client.UploadTraces(context.Background(), batch)
		if requests != c.requests || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("answers %v: %d requests, %v; want %d, %s", c.answers, requests, err, c.requests, c.want)
		}
		server.Close()
	}
}

// A batch that no collector accepts ends with the context, or after a minute.
func TestUploadEnds(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "999999999")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	client := newClient(settings{url: server.URL, headers: make(http.Header)})
	client.firstDelay = 2 * retryFor
	if err := client.UploadTraces(context.Background(), nil); !strings.Contains(fmt.Sprint(err), "503") {
		t.Errorf("got %v, want the answer 503", err)
	}
	server.Close()
	client.firstDelay = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := client.UploadTraces(ctx, nil); err == nil || strings.Contains(err.Error(), server.URL) {
		t.Errorf("got %v, want an error without the address", err)
	}
}
