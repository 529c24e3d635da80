package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// withBrokers gives each twin its own broker.
func (w *twins) withBrokers() (peer, ours string) {
	w.t.Helper()
	var urls [2]string
	for i, file := range []*string{&w.peerC, &w.ourC} {
		mq := testenv.RabbitMQ(w.t)
		urls[i] = mq.URL
		text := testenv.Read(w.t, *file)
		*file = configFile(w.t, fmt.Sprintf("%scelery: {task_broker: %q}\n", text, mq.URL))
	}
	return urls[0], urls[1]
}

// taskMessages takes all messages out of queues. It returns their names and arguments, sorted, without task ids.
func taskMessages(t *testing.T, url string, queues ...string) []string {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var messages []string
	for _, queue := range queues {
		channel, err := conn.Channel() // a missing queue closes the channel
		if err != nil {
			t.Fatal(err)
		}
		for {
			message, ok, err := channel.Get(queue, true)
			if err != nil || !ok {
				break
			}
			var body []any
			if err := json.Unmarshal(message.Body, &body); err != nil {
				t.Fatal(err)
			}
			arguments, err := json.Marshal(body[:2])
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, fmt.Sprintf("%s: %s%s", queue, message.Headers["task"], arguments))
		}
	}
	slices.Sort(messages)
	return messages
}

// taskID matches the part that differs between two programs' messages.
var taskID = regexp.MustCompile(`'task_id': '[0-9a-f-]{36}'`)

// The commands send the same messages to Celery as the Python scheduler, with the same output.
func TestSendSameAsThePythonScheduler(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	peer, ours := w.withBrokers()
	w.execute(someTaskTypes + ";" + someOrigins)
	w.execute(`insert into task_type (type, backend_name, description, max_queue_length) values ('load-svn', 'swh.svn', '', 3), ('load-hg', 'swh.hg', '', 0)`)
	w.migrateOurs()
	w.ignore = append(w.ignore, taskID)
	file := func(lines ...string) string {
		return testenv.File(t, "urls", strings.Join(lines, "\n")+"\n")
	}
	git := file("https://github.com/a/b", " https://x.example/é'\" ", "https://user@github.com/a", "https://github.com:443/a  extra")
	archives := file("https://a dump.gz", "https://b")
	sent := 0
	const send = "send-origins-from-file-to-celery"
	for _, args := range [][]string{
		{"origin", "send-origins-from-scheduler-to-celery", "git", "--queue", "other", "-p", "origins_without_last_update"},
		{"origin", "send-origins-from-scheduler-to-celery", "git"},
		{"origin", "send-origins-from-scheduler-to-celery", "git", "--only-disabled", "--lister-name", "gitlab", "-q", "disabled"},
		{"add-forge-now", "schedule-first-visits", "-t", "pypi", "--lister-name", "pypi"},
		{"add-forge-now", "-p", "staging", "schedule-first-visits", "-t", "pypi", "-t", "git", "--queue-name-prefix", "x"},
		{"origin", send, "load-git", git, "--dry-run"},
		{"origin", send, "load-git", git},
		{"origin", send, "load-git-normal", git, "b=1", "a=[1, 2]", "verify_certs=true"},
		{"origin", send, "load-git-large", git, "--queue-name-prefix", "large", "--threshold", "0", "pos", "5", "url2=x"},
		{"origin", send, "load-git", git, "arg"},
		{"origin", send, "load-git", git, "'"},
		{"origin", send, "load-git", git, "--limit", "2"},
		{"origin", send, "load-git", git, "--limit", "x"},
		{"origin", send, "load-svn", archives, "type=archive", "--dry-run"},
		{"origin", send, "load-svn", archives, "type=svn"},
		{"origin", send, "load-hg-from-archive-mercurial", archives, "visit_date=today"},
		{"origin", send, "load-hg-bitbucket", archives, "--dry-run"},
		{"origin", send, "load-hg", os.DevNull},
	} {
		w.compare([]string{"SWH_CONFIG_FILENAME=" + w.peerC}, args...) // the Python scheduler's senders read only this variable
		queues := []string{"swh.loader.git.tasks.UpdateGitRepository", "other", "disabled", "add_forge_now:swh.load-pypi", "x:swh.load-pypi",
			"x:swh.loader.git.tasks.UpdateGitRepository", "large:swh.loader.git.tasks.UpdateGitRepository", "swh.svn", "swh.hg"}
		want, got := taskMessages(t, peer, queues...), taskMessages(t, ours, queues...)
		sent += len(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q sent\n%s\nthe peer\n%s", args, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if sent < 50 {
		t.Errorf("only %d messages were compared", sent)
	}
}

// A file with more origins than the queue's free slots is sent as slots become free, up to the limit.
func TestSendFromFileWaitsForRoom(t *testing.T) {
	t.Parallel()
	text := services(t)
	_, broker, _ := strings.Cut(text, "task_broker: \"")
	broker, _, _ = strings.Cut(broker, "\"")
	config := configFile(t, text)
	if r := ours(t, "-C", config, "task-type", "add", "load-x", "swh.x", "A loader"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	path := testenv.File(t, "urls", "https://1\n\nhttps://2\nhttps://3\nhttps://4")
	p := start(t, "-C", config, "origin", "send-origins-from-file-to-celery", "load-x", path, "--threshold", "2", "--limit", "3", "--waiting-period", "0")
	p.logs(t, "the queue is full")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var all []string
	for end := time.Now().Add(patience); len(all) < 3 && time.Now().Before(end); <-tick.C {
		messages := taskMessages(t, broker, "swh.x")
		if len(messages) > 2 {
			t.Errorf("%d messages are in a queue for 2", len(messages))
		}
		all = append(all, messages...)
	}
	if len(all) != 3 {
		t.Fatalf("sent %q", all)
	}
	err := <-p.done
	p.done <- err
	if err != nil {
		t.Error(err)
	}
	if n := strings.Count(p.stdout.String(), "'queue': 'swh.x'}\n"); n != 3 {
		t.Errorf("it says that %d were sent:\n%s", n, p.stdout.String())
	}
}

// publish puts a message into a queue and waits for the broker's confirmation.
func publish(t *testing.T, channel *amqp.Channel, queue string) {
	t.Helper()
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirmation.WaitContext(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
}

// Visits that an operator sends to a queue with shares and lanes count for their groups and use the lanes. The same
// holds for a queue with a prefix, and for a file. It doesn't for visits to another queue.
func TestSendToASharedQueueWithLanes(t *testing.T) {
	t.Parallel()
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
shares: {load-git: {by: lister}, "new:load-git": {by: lister_instance}}
lanes:
  load-git: [{name: express, queue: "express:{backend_name}", time_limit: 60, slots: 4}, {name: slow, time_limit: 600, slots: 2}]
  new:load-git: [{name: express, queue: "express:{backend_name}", time_limit: 60, slots: 3}, {name: slow, time_limit: 600, slots: 1}]
`, dsn, mq.URL, mq.ManagementURL))
	execute(t, dsn, `
		insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 1000);
		insert into listers (name, instance_name, current_state, updated) values ('gitea', 'a', '{}', now()), ('github', '', '{}', now());
		insert into listed_origins (lister_id, url, visit_type, last_update, enabled, first_seen, last_seen, extra_loader_arguments)
		select id, 'https://' || name || '.example/' || n, 'git', now(), true, now(), now(), '{}' from listers, generate_series(1, 10) n`)
	if r := ours(t, "-C", config, "migrate"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	urls := testenv.File(t, "urls", "https://1\nhttps://2\nhttps://3\nhttps://4\n")
	ledger := func() string {
		return value(t, dsn, `select coalesce((select string_agg(share_group || ' ' || n, ', ' order by share_group) from
				(select share_group, count(*) n from scheduler_go.work where share_group is not null group by 1) g), 'nothing')
			|| '; ' || (select count(*) from scheduler_go.work where lane_set is not null and state <> 'backlog')::text || ' on lanes'`)
	}
	if r := ours(t, "-C", config, "origin", "send-origins-from-scheduler-to-celery", "git", "--queue", "other"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if got := ledger(); got != "nothing; 0 on lanes" || len(taskMessages(t, mq.URL, "other")) != 20 {
		t.Errorf("to another queue: %s", got)
	}
	execute(t, dsn, "update origin_visit_stats set last_scheduled = null")
	if r := ours(t, "-C", config, "origin", "send-origins-from-scheduler-to-celery", "git"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	got := ledger()
	if !regexp.MustCompile(`^(gitea \d, github \d|gitea 6|github 6); 6 on lanes$`).MatchString(got) {
		t.Errorf("to its own queue: %s", got)
	}
	if express, slow := len(taskMessages(t, mq.URL, "express:swh.git")), len(taskMessages(t, mq.URL, "swh.git")); express != 4 || slow != 2 {
		t.Errorf("%d and %d messages, want 4 and 2", express, slow)
	}

	for _, args := range [][]string{
		{"add-forge-now", "schedule-first-visits", "-t", "git", "--lister-name", "gitea", "--queue-name-prefix", "new"},
		{"origin", "send-origins-from-file-to-celery", "load-git", urls, "lister_name=gitea", "lister_instance_name=a", "--queue-name-prefix", "new"},
	} {
		execute(t, dsn, "delete from scheduler_go.work; delete from scheduler_go.deliveries; update origin_visit_stats set last_scheduled = null")
		if r := ours(t, append([]string{"-C", config}, args...)...); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		if got := ledger(); got != "gitea/a 4; 4 on lanes" {
			t.Errorf("%q: %s", args, got)
		}
		if express, slow := len(taskMessages(t, mq.URL, "express:new:swh.git")), len(taskMessages(t, mq.URL, "new:swh.git")); express != 3 || slow != 1 {
			t.Errorf("%q: %d and %d messages, want 3 and 1", args, express, slow)
		}
	}
}
