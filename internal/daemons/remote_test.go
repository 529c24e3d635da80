package daemons_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/served"
	"swh-scheduler/recurrent"
	"swh-scheduler/runner"
)

// On an RPC server, where what is marked as sent and refused by the broker is lost, a queue that
// refuses messages rests: the next pass notes no run and takes no visit for it. Other queues, also
// of the same lister, get theirs.
func TestRemoteSendersLetAQueueRest(t *testing.T) {
	t.Parallel()
	o := options(t, "test")
	store, err := o.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	testenv.Exec(t, store.Pool(), `
		insert into task_type (type, description, backend_name, max_queue_length)
			select 'load-' || name, '', 'swh.' || name, 5 from unnest(array['a-task', 'b-task', 'a-visit', 'b-visit', 'a-first', 'b-first']) name;
		insert into task (type, arguments, next_run, policy, status) select type, '{"args": [], "kwargs": {}}', now(), 'oneshot', 'next_run_not_scheduled' from task_type, generate_series(1, 20) where type like '%-task';
		insert into listers (name, instance_name, current_state, updated, last_listing_finished_at, first_visits_queue_prefix)
			values ('new', '', '{}', now(), now(), 'first'), ('old', '', '{}', now(), null, null);
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
			select l.id, 'https://' || n, v || case l.name when 'new' then '-first' else '-visit' end, '{}', true, now()
			from listers l, unnest(array['a', 'b']) v, generate_series(1, 20) n`)
	ch := testenv.Channel(t, string(o.Config.Celery.TaskBroker))
	for _, queue := range []string{"swh.a-task", "swh.a-visit", "first:swh.a-first"} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
			t.Fatal(err)
		}
	}
	server := served.RPC(t, store)
	broker, err := o.Config.Broker()
	if err != nil {
		t.Fatal(err)
	}
	for name, sender := range map[string]struct {
		pass  func(direct *dispatch.Direct) func(context.Context) (int, error)
		taken string // how often work was taken for the queue that refuses, and for the other one
	}{
		"runner": {func(direct *dispatch.Direct) func(context.Context) (int, error) {
			return runner.NewRemote(server, direct, runner.Options{Log: o.Log, Reg: prometheus.NewRegistry(), TaskTypes: []string{"load-a-task", "load-b-task"}}).RunOnce
		}, `select count(*) filter (where type = 'load-a-task'), count(*) filter (where type = 'load-b-task') from task_run r join task t on t.id = r.task`},
		"recurrent": {func(direct *dispatch.Direct) func(context.Context) (int, error) {
			policies := []model.WeightedPolicy{{Weight: 1, Filter: model.VisitFilter{Policy: model.OldestScheduledFirst, Cooldowns: model.DefaultCooldowns}}}
			return recurrent.NewRemote(server, direct, recurrent.Options{
				Log: o.Log, Reg: prometheus.NewRegistry(), VisitTypes: []string{"a-visit", "b-visit"}, Policies: map[string][]model.WeightedPolicy{"default": policies},
			}).RunOnce
		}, `select count(*) filter (where visit_type = 'a-visit'), count(*) filter (where visit_type = 'b-visit') from origin_visit_stats`},
		"first visits": {func(direct *dispatch.Direct) func(context.Context) (int, error) {
			return runner.NewRemoteFirstVisits(server, direct, o.Log, prometheus.NewRegistry()).RunOnce
		}, `select count(*) filter (where visit_type = 'a-first'), count(*) filter (where visit_type = 'b-first') from origin_visit_stats`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := &dispatch.Direct{
				Publisher: celery.NewPublisher(broker, celery.PublisherOptions{MaxWait: dispatch.PublishWait}),
				Inspector: celery.NewQueueInspector(broker, string(o.Config.RabbitMQ.ManagementURL), celery.InspectorOptions{}), Rest: time.Hour,
			}
			defer func() { _ = direct.Close() }()
			pass := sender.pass(direct)
			if sent, err := pass(t.Context()); sent != 6 || !celery.IsOfQueue(err) {
				t.Errorf("the first pass sent %d, %v, want 1 and 5, and an error of the queue", sent, err)
			}
			if sent, err := pass(t.Context()); sent != 0 || err != nil {
				t.Errorf("the second pass sent %d, %v, want none", sent, err)
			}
			var refused, good int
			if err := store.Pool().QueryRow(t.Context(), sender.taken).Scan(&refused, &good); err != nil {
				t.Fatal(err)
			}
			if refused != 5 || good != 5 {
				t.Errorf("taken for the queue that refuses %d times, and for the other one %d times, want 5 of each", refused, good)
			}
		})
	}
}
