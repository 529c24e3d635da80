package listener

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

var capture = flag.Bool("capture", false, "write testdata/ends anew from what the installed Celery sends")

// ends are the ways in which a task can end that have to do with time limits, or
// could be mistaken for such.
var ends = []struct {
	name       string // of the file in testdata/ends that has the events about it, and the task's id
	task, args string
	hard, soft time.Duration
	events     string // the types of the events that its worker's parent process sends
	result     bool   // its child process sends a task-result
	want       []settle.End
}{
	{name: "within", task: "Sleep", args: `[0]`, hard: ample, soft: ample, events: "received started succeeded", result: true,
		want: []settle.End{{Status: model.RunUneventful}}},
	{name: "failed", task: "Fail", hard: ample, soft: ample, events: "received started failed",
		want: []settle.End{failedWith("ValueError: nogood")}},

	{name: "soft", task: "Sleep", args: forLong, hard: ample, soft: short, events: "received started failed",
		want: []settle.End{timedOut("billiard.exceptions.SoftTimeLimitExceeded: SoftTimeLimitExceeded()")}},
	{name: "soft-caught", task: "Load", args: forLong, hard: ample, soft: short, events: "received started succeeded", result: true,
		want: []settle.End{timedOut("SoftTimeLimitExceeded()")}},
	{name: "soft-caught-unnamed", task: "LoadPackage", args: forLong, hard: ample, soft: short, events: "received started succeeded", result: true,
		want: []settle.End{{Status: model.RunFailed}}},
	{name: "soft-wrapped", task: "Wrap", args: forLong, hard: ample, soft: short, events: "received started failed",
		want: []settle.End{failedWith("ValueError: interrupted")}},
	{name: "soft-ignored", task: "Stubborn", args: forLong, hard: longer, soft: short, events: "received started failed failed",
		want: []settle.End{hardLimit, hardLimit}},

	{name: "hard", task: "Sleep", args: forLong, hard: longer, events: "received started failed failed",
		want: []settle.End{hardLimit, hardLimit}},
	{name: "hard-late", task: "SleepLate", args: forLong, hard: longer, events: "received started failed failed",
		want: []settle.End{hardLimit, hardLimit}},
	{name: "hard-redelivered", task: "SleepRedelivered", args: forLong, hard: longer,
		events: "received started rejected failed received started succeeded", result: true,
		want: []settle.End{hardLimit, {Status: model.RunUneventful}}},

	{name: "child-killed", task: "Killed", hard: ample, events: "received started failed",
		want: []settle.End{workerLost}},
	{name: "child-killed-late", task: "KilledLate", hard: ample, events: "received started failed",
		want: []settle.End{workerLost}},
	{name: "child-killed-redelivered", task: "KilledRedelivered", hard: ample,
		events: "received started rejected received started succeeded", result: true,
		want: []settle.End{{Status: model.RunUneventful}}},
	{name: "terminated", task: "Sleep", args: forLong, hard: ample, events: "received started revoked",
		want: []settle.End{{Status: model.RunFailed, Final: settle.Revoked, Error: new("revoked, and its process terminated by signal 15")}}},

	{name: "worker-killed", task: "Sleep", args: forLong, hard: ample, events: "received started"},
	{name: "worker-killed-late", task: "SleepLate", args: forLong, hard: ample,
		events: "received started received started succeeded", result: true,
		want: []settle.End{{Status: model.RunUneventful}}},
}

const (
	short   = 2 * time.Second // long enough for a task to have begun in earnest
	longer  = 4 * time.Second
	ample   = time.Hour
	forLong = `[3600]`
)

var (
	hardLimit  = timedOut("billiard.exceptions.TimeLimitExceeded: TimeLimitExceeded(4,)")
	workerLost = failedWith("billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: N.")
)

func failedWith(message string) settle.End {
	return settle.End{Status: model.RunFailed, Error: &message}
}

func timedOut(message string) settle.End {
	end := failedWith(message)
	end.TimedOut = true
	return end
}

func endFile(name string) string { return filepath.Join("testdata", "ends", name+".json") }

// The listener distinguishes a run that a time limit ended from all other ends, in events of real workers.
func TestTimeOutsAreRecognised(t *testing.T) {
	t.Parallel()
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := testenv.Read(t, endFile(c.name))
			events, err := celery.DecodeEvents(body, "application/json")
			if err != nil {
				t.Fatal(err)
			}
			var got []settle.End
			for _, e := range events {
				o, _ := interpret(e, time.Now(), func(p Problem, detail string) { t.Errorf("%s: %s", p, detail) })
				if o.End == nil {
					continue
				}
				o.End.EventTime = 0
				if o.End.Error != nil {
					o.End.Error = new(jobNumber.ReplaceAllString(*o.End.Error, "Job: N"))
				}
				got = append(got, *o.End)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

// jobNumber is how many jobs a worker had had when it lost a child.
var jobNumber = regexp.MustCompile(`Job: \d+`)

// A real worker still sends the events in testdata/ends.
func TestEndsOfRealWorker(t *testing.T) {
	t.Parallel()
	server := testenv.RabbitMQ(t)
	h := newHearer(t, server.URL)
	broker := parsed.Broker(t, server.URL)
	publisher := celery.NewPublisher(broker, celery.PublisherOptions{Logger: testLog(t)})
	t.Cleanup(func() { _ = publisher.Close() })
	if err := publisher.DeclareQueue(t.Context(), "swh.test"); err != nil {
		t.Fatal(err)
	}
	send := func(killed bool) {
		t.Helper()
		for _, c := range ends {
			if strings.HasPrefix(c.name, "worker-killed") != killed {
				continue
			}
			if err := errors.Join(publisher.Publish(t.Context(), []celery.TaskMessage{{
				ID: c.name, Name: "swh.test." + c.task, Queue: "swh.test", Args: json.RawMessage(c.args),
				TimeLimit: c.hard, SoftTimeLimit: c.soft,
			}})...); err != nil {
				t.Fatal(err)
			}
		}
	}

	first := startWorker(t, server.URL, "--concurrency", "2")
	send(true)
	h.until(t, "both tasks have started", func() bool {
		return h.heard("worker-killed", "task-started") == 1 && h.heard("worker-killed-late", "task-started") == 1
	})
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := startWorker(t, server.URL, "--concurrency", "8")
	send(false)
	h.until(t, "the task to terminate has started", func() bool { return h.heard("terminated", "task-started") == 1 })
	control := celery.NewControl(broker, celery.ControlOptions{})
	if _, err := control.Revoke(t.Context(), celery.Destination{}, []string{"terminated"}, celery.Revocation{Terminate: true}); err != nil {
		t.Fatal(err)
	}
	h.until(t, "everything has ended", func() bool {
		for _, c := range ends {
			if parent, _ := h.of(c.name); len(parent) < len(strings.Fields(c.events)) {
				return false
			}
		}
		return true
	})
	// Whatever else it has to say comes before its farewell.
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.until(t, "the worker has gone", func() bool { return h.heard("", "worker-offline") == 1 })

	for _, c := range ends {
		if *capture {
			h.save(t, c.name)
		}
		parent, child := h.of(c.name)
		var types []string
		for _, e := range parent {
			types = append(types, strings.TrimPrefix(e.Type, "task-"))
		}
		if got := strings.Join(types, " "); got != c.events {
			t.Errorf("%s: %s, want %s", c.name, got, c.events)
		}
		if len(child) > 1 || (len(child) == 1) != c.result {
			t.Errorf("%s: %d results", c.name, len(child))
		}
		body := testenv.Read(t, endFile(c.name))
		captured, err := celery.DecodeEvents(body, "application/json")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(essence(captured), essence(append(parent, child...))); diff != "" {
			t.Errorf("%s (-captured +sent now):\n%s", c.name, diff)
		}
	}
}

// essence is what of events is the same each time, results last.
func essence(events []celery.Event) (all []string) {
	for _, results := range []bool{false, true} {
		for _, e := range events {
			if (e.Type == "task-result") == results {
				line := "none"
				if last := lastLine(e, func(Problem, string) {}); last != nil {
					line = jobNumber.ReplaceAllString(*last, "Job: N")
				}
				result := strings.ReplaceAll(string(e.Fields["result"]), " ", "")
				all = append(all, fmt.Sprintf("%s %s %s %s", e.Type, e.Fields["exception"], line, result))
			}
		}
	}
	return all
}

// hearer keeps the events that workers send.
type hearer struct {
	exchange *exchange
	events   []celery.Event // those of tasks, and worker-offline
}

func newHearer(t *testing.T, url string) *hearer {
	t.Helper()
	return &hearer{exchange: newExchange(t, url)}
}

// until reads events until a condition holds.
func (h *hearer) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testenv.Becomes(t, what, true, func() bool {
		for {
			d, ok, err := h.exchange.channel.Get("celeryev.listener", true)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return holds()
			}
			events, err := celery.DecodeEvents(d.Body, d.ContentType)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.UUID != "" || e.Type == "worker-offline" {
					h.events = append(h.events, e)
				}
			}
		}
	})
}

// heard counts the received events of a type about a task.
func (h *hearer) heard(id, eventType string) (n int) {
	for _, e := range h.events {
		if e.UUID == id && e.Type == eventType {
			n++
		}
	}
	return n
}

// of returns the events about a task by the process that sends them. Events of different processes have no order.
func (h *hearer) of(id string) (parent, child []celery.Event) {
	for _, e := range h.events {
		switch {
		case e.UUID != id:
		case e.Type == "task-result":
			child = append(child, e)
		default:
			parent = append(parent, e)
		}
	}
	return parent, child
}

// save writes the events about a task in order of arrival, one a line.
func (h *hearer) save(t *testing.T, id string) {
	t.Helper()
	var lines [][]byte
	for _, e := range h.events {
		if e.UUID == id {
			line, err := json.Marshal(e.Fields)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line)
		}
	}
	body := slices.Concat([]byte("["), bytes.Join(lines, []byte(",\n ")), []byte("]\n"))
	prefix, err := exec.Command(testenv.Python(t), "-c", "import sys; print(sys.prefix)").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.ReplaceAll(body, bytes.TrimSpace(prefix), []byte("/venv"))
	body = bytes.ReplaceAll(body, []byte(dir), []byte("/listener"))
	if err := os.WriteFile(endFile(id), body, 0o644); err != nil {
		t.Fatal(err)
	}
}
