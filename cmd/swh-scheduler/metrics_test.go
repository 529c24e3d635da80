package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// watched is a daemon that serves metrics, and their address.
type watched struct {
	*process
	base string
}

func startWatched(t *testing.T, args ...string) *watched {
	t.Helper()
	return startWatchedWith(t, nil, args...)
}

// startWatchedWith starts a daemon with additional variables of the environment.
func startWatchedWith(t *testing.T, more []string, args ...string) *watched {
	t.Helper()
	p := startWith(t, more, append([]string{"--metrics-addr", "127.0.0.1:0"}, args...)...)
	p.logs(t, "serving metrics")
	address := regexp.MustCompile(`serving metrics"\W+address\W+([\d.:]+)`).FindStringSubmatch(p.log())
	if address == nil {
		t.Fatalf("no address in the log:\n%s", p.log())
	}
	return &watched{p, "http://" + address[1]}
}

func (w *watched) get(t *testing.T, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(w.base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// becomes waits until a path returns a status and a text.
func (w *watched) becomes(t *testing.T, path string, status int, text string) {
	t.Helper()
	testenv.Shows(t, text, func() string {
		got, shown := w.get(t, path)
		if got != status {
			return fmt.Sprint(got)
		}
		return shown
	})
}

// With its services, each daemon serves its metrics, is alive, and becomes ready.
func TestDaemonsServeHealthAndMetrics(t *testing.T) {
	t.Parallel()
	config := configFile(t, services(t)+journalSection(t, ""))
	for command, metric := range map[string]string{
		"start-runner --period 1":              "swh_scheduler_monitor_age_seconds",
		"start-runner-first-visits --period 1": "swh_scheduler_monitor_age_seconds",
		"schedule-recurrent":                   "swh_scheduler_candidate_changes",
		"start-listener":                       "swh_scheduler_listener_workers_online",
		"journal-client":                       "swh_scheduler_journal_batch_seconds",
		"rpc-serve --port 0":                   "swh_scheduler_rpc_call_seconds",
		"dashboard --port 0":                   "swh_scheduler_dashboard_page_seconds",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			w := startWatched(t, append([]string{"-C", config}, strings.Fields(command)...)...)
			w.becomes(t, "/healthz", http.StatusOK, "alive\n")
			if !strings.HasPrefix(command, "schedule-recurrent") { // schedule-recurrent waits for a task type load-*
				w.becomes(t, "/readyz", http.StatusOK, "ready\n")
			}
			w.becomes(t, "/metrics", http.StatusOK, "swh_scheduler_build_info{")
			w.becomes(t, "/metrics", http.StatusOK, "go_goroutines")
			w.becomes(t, "/metrics", http.StatusOK, metric)
			w.stop(t, syscall.SIGTERM)
		})
	}
}

// If a service is away, a daemon is alive and not ready. Its response has no password, host or user. Once the service is
// back, the daemon is ready.
func TestReadinessFollowsTheServices(t *testing.T) {
	t.Parallel()
	dsn, proxy := proxied(t, testenv.Database(t), url.UserPassword("postgres", "s3cret"))
	proxy.Cut()
	mq := testenv.RabbitMQ(t)
	w := startWatched(t, "-C", configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		dsn, mq.URL, mq.ManagementURL)), "start-runner", "--period", "1")
	tellsStrangers := func() {
		t.Helper()
		for _, path := range []string{"/readyz", "/healthz", "/metrics"} {
			_, text := w.get(t, path)
			for _, word := range []string{"s3cret", "127.0.0.1", "host=", "user=", "postgres@"} {
				if strings.Contains(text, word) {
					t.Errorf("%s shows %q:\n%s", path, word, text)
				}
			}
		}
	}
	w.becomes(t, "/readyz", http.StatusServiceUnavailable, "waiting for PostgreSQL")
	w.becomes(t, "/healthz", http.StatusOK, "alive\n")
	tellsStrangers()
	proxy.Restore()
	w.becomes(t, "/readyz", http.StatusOK, "ready\n")
	proxy.Cut()
	w.becomes(t, "/readyz", http.StatusServiceUnavailable, "cannot be reached since")
	tellsStrangers()
	proxy.Restore()
	w.becomes(t, "/readyz", http.StatusOK, "ready\n")
}

// If the broker is away, even an idle daemon is alive and not ready.
func TestReadinessFollowsTheBroker(t *testing.T) {
	t.Parallel()
	mq := testenv.RabbitMQ(t)
	broker, proxy := testenv.Through(t, mq.URL, testenv.Proxy)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n",
		testenv.Database(t), broker, mq.ManagementURL))
	daemons := []*watched{startWatched(t, "-C", config, "start-listener"), startWatched(t, "-C", config, "start-runner", "--period", "1")}
	all := func(status int, text string) {
		t.Helper()
		for _, w := range daemons {
			w.becomes(t, "/readyz", status, text)
			w.becomes(t, "/healthz", http.StatusOK, "alive\n")
		}
	}
	all(http.StatusOK, "ready\n")
	proxy.Cut()
	all(http.StatusServiceUnavailable, "waiting for RabbitMQ, which cannot be reached since")
	proxy.Restore()
	all(http.StatusOK, "ready\n")
}

// Signals change the log level of a running daemon.
func TestLogLevelFollowsSignals(t *testing.T) {
	t.Parallel()
	w := startWatched(t, "-C", configFile(t, services(t)), "start-listener")
	for signal, level := range map[syscall.Signal]string{syscall.SIGUSR1: "level=DEBUG", syscall.SIGUSR2: "level=INFO"} {
		if err := w.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		w.logs(t, `msg="log level changed" `+level)
	}
}
