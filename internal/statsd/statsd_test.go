package statsd

import (
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/goleak"

	"swh-scheduler/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receive returns the next n packets.
func receive(t *testing.T, server net.PacketConn, n int) (packets []string) {
	t.Helper()
	_ = server.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 1<<16)
	for range n {
		size, _, err := server.ReadFrom(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, packets)
		}
		packets = append(packets, string(buf[:size]))
	}
	slices.Sort(packets)
	return packets
}

// For the same counters and environment, the packets equal those of the Python scheduler's client.
func TestSendsWhatThePythonSchedulerSends(t *testing.T) {
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	_, port, _ := net.SplitHostPort(server.LocalAddr().String())
	for name, value := range map[string]string{
		"STATSD_HOST": "127.0.0.1", "STATSD_PORT": port, "DEPLOYMENT": "staging", "EMPTY": "",
		"STATSD_TAGS": "deployment:$DEPLOYMENT,b:${EMPTY},,nothing,url:a:b,c:$UNSET,d:${DEPLOYMENT,e:$DEPLOYMENT}",
	} {
		t.Setenv(name, value)
	}

	registry := prometheus.NewRegistry()
	f := promauto.With(registry)
	var log strings.Builder
	s, err := FromEnvironment(registry, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || strings.Count(log.String(), "tag=nothing") != 1 {
		t.Fatal(err, log.String())
	}
	tasks := f.NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_runner_scheduled_task_total"}, []string{"task_type"})
	events := f.NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_listener_handled_event_total"}, []string{"event_type"})
	group := prometheus.Labels{"group": "g"}
	records := f.NewCounter(prometheus.CounterOpts{Name: "swh_journal_client_handle_message_total", ConstLabels: group})
	restarts := f.NewCounter(prometheus.CounterOpts{Name: "swh_journal_client_partition_restart_total", ConstLabels: group})
	stops := f.NewCounter(prometheus.CounterOpts{Name: "swh_journal_client_stop_total", ConstLabels: group})
	status := f.NewGaugeVec(prometheus.GaugeOpts{Name: "swh_journal_client_status", ConstLabels: group}, []string{"status"})
	f.NewCounter(prometheus.CounterOpts{Name: "swh_scheduler_of_ours_total"}).Inc()
	tasks.WithLabelValues("load-git").Add(1000)
	tasks.WithLabelValues("list-gitlab").Add(1)
	events.WithLabelValues("task-started").Inc()
	records.Add(200)
	restarts.Add(2)
	stops.Inc()
	for _, is := range []string{"idle", "waiting"} {
		status.WithLabelValues(is).Set(0)
	}
	status.WithLabelValues("processing").Set(1)
	s.send()
	got := receive(t, server, 9)

	cmd := exec.Command(testenv.Python(t), "-W", "ignore", "-c", `
from swh.core.statsd import statsd, Statsd
statsd.increment("swh_scheduler_runner_scheduled_task_total", 1000, tags={"task_type": "load-git"})
statsd.increment("swh_scheduler_runner_scheduled_task_total", 1, tags={"task_type": "list-gitlab"})
statsd.increment("swh_scheduler_listener_handled_event_total", tags={"event_type": "task-started"})
journal = Statsd(namespace="swh_journal_client", constant_tags={"group": "g"})
journal.increment("handle_message_total", value=200)
for _ in range(2): journal.increment("partition_restart_total")
journal.increment("stop_total")
for status in "idle", "waiting": journal.gauge("status", 0, {"status": status})
journal.gauge("status", 1, {"status": "processing"})
`)
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := receive(t, server, 10)
	i := slices.IndexFunc(want, func(p string) bool { return strings.Contains(p, "partition_restart_total:1|") })
	want = slices.Delete(want, i, i+1)
	want[i] = strings.Replace(want[i], ":1|", ":2|", 1) // the same in one packet
	if !slices.Equal(got, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// Later packets have the increments.
	tasks.WithLabelValues("load-git").Add(5)
	s.send()
	if got := receive(t, server, 4); !strings.HasPrefix(got[3], "swh_scheduler_runner_scheduled_task_total:5|c|#") {
		t.Errorf("%q", got)
	}
}

// The names are all those that the Python scheduler's daemons send: no file of theirs has another.
func TestNamesAreAllOfThePythonScheduler(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(testenv.Python(t), "-c", `
import ast, json, pathlib, swh.scheduler, swh.journal.client, swh.core.api
files = [f for m in (swh.scheduler, swh.core.api) for f in pathlib.Path(m.__path__[0]).rglob("*.py")]
files = [f for f in files if "tests" not in f.parts and f.name != "task.py"]  # task.py is the workers'
found = []
for f in files + [pathlib.Path(swh.journal.client.__file__)]:
    for n in ast.walk(ast.parse(f.read_text())):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.args and "statsd" in ast.unparse(n.func.value):
            found.append(ast.literal_eval(n.args[0]))
print(json.dumps(sorted(set(found))))
`).Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs, known []string
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		known = append(known, strings.TrimPrefix(name, "swh_journal_client."))
	}
	slices.Sort(known)
	if !slices.Equal(theirs, known) {
		t.Errorf("the Python scheduler sends %q, we send %q", theirs, known)
	}
}

func TestOnlyWhereItIsConfigured(t *testing.T) {
	for _, name := range []string{"STATSD_HOST", "STATSD_PORT", "STATSD_TAGS"} {
		t.Setenv(name, "")
	}
	if s, err := FromEnvironment(nil, nil); s != nil || err != nil {
		t.Error(s, err)
	}
	t.Setenv("STATSD_PORT", "http")
	if _, err := FromEnvironment(nil, nil); err == nil || !strings.Contains(err.Error(), "STATSD_PORT") {
		t.Error(err)
	}
}

// A hostile name is one tag of one counter. Two names that are equal in a packet are separate counters.
func TestTagsAreEscaped(t *testing.T) {
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	_, port, _ := net.SplitHostPort(server.LocalAddr().String())
	t.Setenv("STATSD_HOST", "127.0.0.1")
	t.Setenv("STATSD_PORT", port)
	t.Setenv("FORGED", "x|c\nswh_other:9|g")
	t.Setenv("STATSD_TAGS", "from:$FORGED")
	registry := prometheus.NewRegistry()
	events := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_listener_handled_event_total"}, []string{"event_type"})
	s, err := FromEnvironment(registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sends := func(want ...string) {
		t.Helper()
		s.send()
		if got := receive(t, server, len(want)); !slices.Equal(got, want) {
			t.Errorf("sent %q\nwant %q", got, want)
		}
	}
	const name, from = "swh_scheduler_listener_handled_event_total", ",from:x_c_swh_other:9_g"
	events.WithLabelValues("a,role:b#|c\nd:e\x00").Add(3)
	sends(name + ":3|c|#event_type:a_role:b__c_d:e_" + from)
	events.WithLabelValues("one|two").Add(1)
	events.WithLabelValues("one,two").Add(5)
	sends(name+":1|c|#event_type:one_two"+from, name+":5|c|#event_type:one_two"+from)
	events.WithLabelValues("one,two").Add(1)
	sends(name + ":1|c|#event_type:one_two" + from)
}
