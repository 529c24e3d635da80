package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// A daemon that is told to serves its metrics, workers and outcomes among them.
func TestDaemonServesMetrics(t *testing.T) {
	t.Parallel()
	p := start(t, "-C", configFile(t, services(t)), "--metrics-addr", "127.0.0.1:0", "start-listener")
	p.logs(t, "serving metrics")
	address := regexp.MustCompile(`serving metrics" address=(\S+)`).FindStringSubmatch(p.log())
	if address == nil {
		t.Fatalf("no address in the log:\n%s", p.log())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "swh_scheduler_listener_workers_online") {
		t.Errorf("status %d:\n%s", response.StatusCode, text)
	}
}
