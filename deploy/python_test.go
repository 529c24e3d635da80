package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// produceVisit writes a record to the journal whose topics have the default prefix.
const produceVisit = `
import datetime, sys
import msgpack
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
topic = "swh.journal.objects.origin_visit_status"
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
try:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
except Exception as e:  # it may be there
    print(e)
visit = {"origin": "https://journal.example/", "visit": 1, "date": datetime.datetime.now(tz=datetime.timezone.utc), "type": "git", "status": "full", "snapshot": b"1" * 20, "metadata": None}
producer = Producer({"bootstrap.servers": sys.argv[1]})
producer.produce(topic, msgpack.packb(visit, datetime=True), key=b"k")
sys.exit(producer.flush(30))
`

// The Python components can share the sample, as it says. Each of them reads it, with only addresses and credentials
// replaced, starts, and does its first work.
func TestSampleServesThePythonComponents(t *testing.T) {
	t.Parallel()
	python, dsn, mq, brokers := testenv.Python(t), testenv.PythonDatabase(t), testenv.RabbitMQ(t), testenv.Kafka(t)
	conn, channel := testenv.Connect(t, dsn), testenv.Channel(t, mq.URL)
	testenv.Exec(t, conn, `
		insert into task_type (type, description, backend_name, default_interval, max_queue_length) values ('load-git', '', 'swh.test.LoadGit', '1 day', 100);
		insert into task (type, arguments, next_run, status, policy) values ('load-git', '{"args": [], "kwargs": {}}', now(), 'next_run_not_scheduled', 'oneshot');
		insert into listers (name, instance_name, current_state, updated) values ('gitea', '', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) select id, 'https://one/', 'git', '{}', true, now() from listers`)
	text := string(testenv.Read(t, filepath.Join("config", "scheduler.yml")))
	list, err := json.Marshal(brokers)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"db": dsn, "task_broker": mq.URL, "management_url": mq.ManagementURL, "brokers": string(list),
		"group_id": "sample-" + filepath.Base(t.TempDir()) + fmt.Sprint(time.Now().UnixNano()), "security.protocol": "PLAINTEXT",
	} {
		of := regexp.MustCompile(`(?m)^( +` + regexp.QuoteMeta(key) + `: ).*$`)
		if len(of.FindAllString(text, -1)) != 1 {
			t.Fatalf("the sample has no key %s, or several", key)
		}
		text = of.ReplaceAllString(text, "${1}"+strings.ReplaceAll(value, "$", "$$"))
	}
	file := testenv.File(t, "scheduler.yml", text)
	if err := channel.ExchangeDeclare("celeryev", "topic", true, false, false, false, nil); err != nil { // workers declare it, too
		t.Fatal(err)
	}
	program := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, testenv.Swh(t), append([]string{"scheduler", "-C", file}, args...)...)
		cmd.Env = append(os.Environ(), testenv.EndsConnections(), "SWH_CONFIG_FILENAME="+file)
		return cmd
	}
	once := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := program(ctx, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	// until runs a daemon until done is true.
	until := func(what string, done func() bool, cmd *exec.Cmd) {
		t.Helper()
		var log testenv.Buffer
		args := cmd.Args[1:]
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		testenv.Becomes(t, what, "done", func() string {
			select {
			case <-ended:
				return "done" // too early
			default:
			}
			if done() {
				return "done"
			}
			return ""
		})
		select {
		case <-ended:
			t.Errorf("%s ended:\n%s", args, log.String())
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	holds := func(queue string) int {
		q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			channel = testenv.Channel(t, mq.URL)
		}
		return q.Messages + q.Consumers
	}

	if out := once("task-type", "list"); !strings.Contains(out, "load-git") {
		t.Errorf("task-type list: %s", out)
	}
	if once("start-runner"); holds("swh.test.LoadGit") != 1 {
		t.Error("the runner sent no task")
	}
	once("start-runner-first-visits")
	until("a visit is sent", func() bool { return holds("swh.test.LoadGit") == 2 }, program(t.Context(), "schedule-recurrent", "--visit-type", "git"))
	until("the listener reads", func() bool { return holds("celeryev.listener") > 0 }, program(t.Context(), "start-listener"))
	port := testenv.FreePort(t)
	server := exec.CommandContext(t.Context(), python, "-c", "import sys; from swh.scheduler.api.server import make_app_from_configfile; make_app_from_configfile().run(host='127.0.0.1', port=int(sys.argv[1]))", port)
	server.Env = append(os.Environ(), "SWH_CONFIG_FILENAME="+file)
	until("the RPC server answers", func() bool {
		response, err := http.Get("http://127.0.0.1:" + port + "/")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, server)
	if out, err := exec.CommandContext(t.Context(), python, "-c", produceVisit, strings.Join(brokers, ",")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := once("journal-client", "--stop-after-objects", "1"); !strings.Contains(out, "Processed ") {
		t.Errorf("journal-client: %s", out)
	}
}
