package main

import (
	"fmt"
	"log/slog"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/ledger"
)

// scaled plays an autoscaler: it starts as many workers for each queue as are wanted.
type scaled struct {
	*lanePlayer
	url     string
	workers map[string][]scaledWorker
	most    map[string]int // largest number of workers at one time
}

// scaledWorker takes one message at a time.
type scaledWorker struct {
	ch   *amqp.Channel
	came <-chan amqp.Delivery
}

// scale starts and stops workers. A message of a stopped worker goes to another one.
func (s *scaled) scale(queue string, wanted int) {
	s.t.Helper()
	for len(s.workers[queue]) < wanted {
		ch := testenv.Channel(s.t, s.url)
		if err := ch.Qos(1, 0, false); err != nil {
			s.t.Fatal(err)
		}
		testenv.Declare(s.t, ch, queue, nil) // as workers do: a ready task starts a worker before its first message
		came, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		s.workers[queue] = append(s.workers[queue], scaledWorker{ch, came})
	}
	for n := len(s.workers[queue]); n > wanted; n-- {
		if err := s.workers[queue][n-1].ch.Close(); err != nil {
			s.t.Fatal(err)
		}
		s.workers[queue] = s.workers[queue][:n-1]
	}
	s.most[queue] = max(s.most[queue], wanted)
}

// work makes each worker run one message, if there is one.
func (s *scaled) work() {
	for queue, workers := range s.workers {
		for _, w := range workers {
			select {
			case d, ok := <-w.came:
				if ok {
					s.end(queue, s.queues[queue], d)
				}
			default:
			}
		}
	}
}

// An autoscaler with wanted workers starts from none. It wakes each lane once it has work, and returns to none once it
// is empty, twice. Each task runs once, and a time-out in the express lane is no failure.
func TestWantedWorkersScaleLanesFromZero(t *testing.T) {
	t.Parallel()
	const loader, express, most = "swh.loader.git", "express:swh.loader.git", 4
	dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
	section := journalSection(t, "")
	file := configFile(t, fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
rabbitmq: {management_url: %q}
wanted_workers: {default: {target_wait: 2, max: %d}, load-git: {runtime: 1}}
lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 min, slots: 10}
  - {name: slow, time_limit: 15 min, slots: 5}
`, dsn, mq.URL, mq.ManagementURL, most)+section)
	if r := ours(t, "-C", file, "migrate"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	c, _, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	broker, err := c.Broker()
	if err != nil {
		t.Fatal(err)
	}
	inspector := celery.NewQueueInspector(broker, mq.ManagementURL, celery.InspectorOptions{Logger: slog.New(slog.DiscardHandler)})
	defer inspector.Close()
	store, conn := testenv.Open(t, dsn), testenv.Connect(t, dsn)
	testenv.Exec(t, conn, "insert into task_type (type, description, backend_name, max_queue_length, num_retries) values ('load-git', '', $1, 100, 2)", loader)
	journal, err := kgo.NewClient(kgo.SeedBrokers(testenv.Kafka(t)...))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	s := &scaled{url: mq.URL, workers: map[string][]scaledWorker{}, most: map[string]int{}, lanePlayer: &lanePlayer{
		t: t, ch: testenv.ListenerQueue(t, mq.URL), journal: journal, topic: "none", tries: map[string][]playedTry{}, sent: map[string]int{},
		note: func(string, string, ...any) {}, queues: map[string]*playedQueue{express: {}, loader: {}},
	}}
	start(t, "-C", file, "start-listener")
	start(t, "-C", file, "start-runner", "--period", "1")

	wanted := func() map[string]int {
		t.Helper()
		took, err := store.Took(t.Context(), ledger.EndedByWorker, store.Now().AddDate(0, 0, -1), string(model.RunEventful))
		if err != nil {
			t.Fatal(err)
		}
		demands, err := status.Demands(t.Context(), store, inspector, c, took)
		if err != nil {
			t.Fatal(err)
		}
		workers := map[string]int{}
		for queue, d := range demands {
			workers[queue] = d.Workers()
		}
		return workers
	}
	done := 0
	for round, tasks := range []int{40, 12} {
		testenv.Exec(t, conn, `insert into task (type, arguments, next_run, status, policy, retries_left)
			select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://task/' || n)), now(), 'next_run_not_scheduled', 'oneshot', 2
			from generate_series($1::int + 1, $1::int + $2::int) n`, done, tasks)
		done += tasks
		testenv.Becomes(t, fmt.Sprintf("round %d: tasks that are not completed, and workers", round+1), [2]int{0, 0}, func() [2]int {
			now := wanted()
			for _, queue := range []string{express, loader} {
				s.scale(queue, now[queue])
			}
			s.work()
			return [2]int{testenv.Value[int](t, conn, "select count(*) from task where status <> 'completed'"), len(s.workers[express]) + len(s.workers[loader])}
		})
	}
	for _, queue := range []string{express, loader} {
		if s.most[queue] < 1 || s.most[queue] > most {
			t.Errorf("%s: %d workers at once, not 1 to %d", queue, s.most[queue], most)
		}
	}
	if n := testenv.Value[int](t, conn, "select count(*) from task_run where status = 'eventful'"); n != done {
		t.Errorf("%d runs that ended well of %d tasks", n, done)
	}
	if n := testenv.Value[int](t, conn, "select count(*) from task_run"); n != done {
		t.Errorf("%d runs of %d tasks", n, done)
	}
	for url, tries := range s.tries {
		if last := tries[len(tries)-1]; last.over || len(tries) > 2 || len(tries) == 2 && !tries[0].over {
			t.Errorf("%s: %v", url, tries)
		}
	}
}
