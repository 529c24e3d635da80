package listener

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/internal/testenv/throwaway"
)

// startWorker runs a real Celery worker on testdata/tasks.py, as the leader of a process group, until the test
// ends.
func startWorker(t *testing.T, brokerURL string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testenv.Python(t), append([]string{"-m", "celery", "--app", "tasks", "worker",
		"--hostname", "worker@host", "--queues", "swh.test", "--concurrency", "1", "--loglevel", "warning"}, arguments...)...)
	cmd.Dir = "testdata"
	cmd.Env = append(os.Environ(), "TEST_BROKER="+brokerURL, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		force := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer force.Stop()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd
}

// The events of a real worker for all kinds of ends leave the expected rows, and the worker is counted.
func TestRealWorker(t *testing.T) {
	t.Parallel()
	pg, server := ownDatabase(t), testenv.RabbitMQ(t)
	l := newTestListener(t, consumer(t, server.URL), openStore(t, pg.dsn))
	newExchange(t, server.URL) // no event is lost before the listener is there
	start(t, l)
	startWorker(t, server.URL)

	broker := parsed.Broker(t, server.URL)
	testenv.Becomes(t, "the worker is seen", true, func() bool { return l.workers.online(time.Now()) == 1 })
	control := celery.NewControl(broker, celery.ControlOptions{})
	testenv.Becomes(t, "the worker knows what is revoked", true, func() bool {
		replies, err := control.Revoke(t.Context(), celery.Destination{}, []string{"revoked"}, celery.Revocation{})
		return err == nil && len(replies) == 1
	})
	publisher := celery.NewPublisher(broker, celery.PublisherOptions{Logger: testLog(t)})
	t.Cleanup(func() { _ = publisher.Close() })
	if err := publisher.DeclareQueue(t.Context(), "swh.test"); err != nil {
		t.Fatal(err)
	}
	rejected := `failed {"error": "celery.exceptions.Reject: ('not mine', False)", "worker": "worker@host", "not_retried": "rejected"}`
	if version := os.Getenv(throwaway.CeleryVersionVar); version != "" && version < "5.7" {
		rejected = `failed {"worker": "worker@host", "not_retried": "rejected"}` // it doesn't say why
	}
	const revoked = `failed {"error": "revoked before a worker began it", "not_retried": "revoked"}`
	tasks := []struct{ id, name, args, want string }{
		{"eventful", "Return", `[{"status": "success", "eventful": true}]`, `eventful {"worker": "worker@host"}`},
		{"uneventful", "Return", `[{"status": "uneventful"}]`, `uneventful {"worker": "worker@host"}`},
		{"not-found", "Return", `[{"status": "failed", "error": "é"}]`, `failed {"error": "é", "worker": "worker@host"}`},
		{"nothing", "Return", `[null]`, `uneventful {"worker": "worker@host"}`},
		{"not-a-number", "Return", `[{"status": "eventful", "x": 1e999}]`, `eventful {"worker": "worker@host"}`},
		{"no-number", "Return", `[{"status": "success", "eventful": NaN}]`, `eventful {"worker": "worker@host"}`},
		{"infinity", "Return", `[-Infinity]`, `eventful {"worker": "worker@host"}`},
		{"fail", "Fail", `[]`, `failed {"error": "ValueError: nogood", "worker": "worker@host"}`},
		{"retry", "Retry", `[]`, `eventful {"worker": "worker@host"}`},
		{"reject", "Reject", `[]`, rejected},
		{"revoked", "Return", `["never"]`, revoked},
		{"unknown", "Unknown", `[]`, `failed {}`},
	}
	for _, task := range tasks {
		pg.addTask(t, "good", "recurring", task.id)
		err := publisher.Publish(t.Context(), []celery.TaskMessage{{
			ID: task.id, Name: "swh.test." + task.name, Queue: "swh.test", Args: json.RawMessage(task.args),
		}})
		if err := errors.Join(err...); err != nil {
			t.Fatal(err)
		}
	}
	for i, task := range tasks {
		var got string
		testenv.Becomes(t, task.id+" has ended", true, func() bool {
			state := pg.state(t, task.id)[0]
			got, _, _ = strings.Cut(strings.TrimPrefix(state, task.id+" "), " started=")
			ends, started := strings.Contains(state, "ended=true"), strings.Contains(state, "started=true")
			return ends && (started || task.want == "failed {}" || task.want == revoked)
		})
		if got != task.want {
			t.Errorf("task %d, %s: %s, want %s", i, task.id, got, task.want)
		}
	}
	testenv.Becomes(t, "durations", 8, func() int {
		return testenv.Value[int](t, pg.pool, `select count(*) from scheduler_go.run_durations where type = 'good'`)
	})
}
