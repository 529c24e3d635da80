package runner_test

import (
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/runner"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// A pass that claims 1,000 tasks, and a batch of 1,000 events, take the number of statements in
// docs/devel/database.md, however many tasks or events there are.
func TestStatements(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, "../docs/devel/database.md")
	for name, mode := range map[string]struct{ shares, lanes bool }{
		"plain": {false, false}, "shares": {true, false}, "lanes": {false, true}, "shares and lanes": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := regexp.MustCompile(`(?m)^\| ` + name + ` \| (\d+) \| (\d+) \|$`).FindSubmatch(page)
			if row == nil {
				t.Fatal("the page has no such row")
			}
			w := openWorld(t)
			w.exec(t, `insert into task_type (type, description, backend_name, max_queue_length, default_interval, min_interval, max_interval, backoff_factor)
				values ('load-git', '', 'swh.load', 1000, '1 day', '1 day', '1 day', 1)`)
			w.exec(t, `insert into task (type, arguments, next_run, current_interval, status)
				select 'load-git', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('url', 'https://example.org/' || n, 'owner', n % 3)),
				       now() - n * interval '1 s', '1 day', 'next_run_not_scheduled' from generate_series(1, 1000) n`)
			log := slog.New(slog.NewTextHandler(t.Output(), nil))
			o := runner.Options{Log: log, Reg: prometheus.NewRegistry()}
			if mode.shares {
				o.Shares = map[string]model.Shares{"load-git": {By: "kwargs.owner", Default: 1, HalfLife: time.Hour}}
				testenv.Migrate(t, w.dsn, migrate.Options{Shares: o.Shares})
			}
			if mode.lanes {
				o.Lanes = map[string][]model.Lane{"load-git": {
					{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: time.Minute, TimeLimit: 2 * time.Minute, Slots: 1000, MinSlots: 1},
					{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: 2 * time.Hour, Slots: 1000, MinSlots: 1},
				}}
			}
			proxied, sent := testenv.Statements(t, w.dsn)
			counted := testenv.Open(t, proxied, postgres.Options{Command: "test", MaxConns: 1})
			uncounted := w.store
			w.store = counted
			o.Store, o.Slots = counted, w.slots(t)
			r := runner.New(o)
			if err := counted.CheckVersion(t.Context()); err != nil {
				t.Fatal(err)
			}
			sent()
			if n, err := r.RunOnce(t.Context()); n != 1000 || err != nil {
				t.Fatalf("%d tasks were claimed: %v", n, err)
			}
			compareStatements(t, "the claim", sent(), string(row[1]))

			broker := parsed.Broker(t, w.broker.URL)
			publisher := celery.NewPublisher(broker, celery.PublisherOptions{})
			defer publisher.Close()
			done := make(chan struct{})
			close(done)
			if d, err := dispatch.NewDeliverer(uncounted, publisher, log, prometheus.NewRegistry()).DrainUntil(t.Context(), done); d.Confirmed != 1000 || err != nil {
				t.Fatalf("%d messages were sent: %v", d.Confirmed, err)
			}
			var events []settle.Outcome
			now := time.Now()
			for _, id := range testenv.Column[string](t, uncounted.Pool(), "select backend_id from task_run order by id limit 334") {
				events = append(events,
					settle.Outcome{BackendID: id, Received: now, Start: &settle.Start{EventTime: model.UnixSeconds(now)}},
					settle.Outcome{BackendID: id, Received: now, End: &settle.End{Status: model.RunEventful, EventTime: model.UnixSeconds(now)}},
					settle.Outcome{BackendID: id, Received: now, Runtime: new(time.Second)})
			}
			sent()
			if err := (settle.Store{Store: counted}).ApplyOutcomes(t.Context(), events[:1000]); err != nil {
				t.Fatal(err)
			}
			compareStatements(t, "the batch of events", sent(), string(row[2]))
		})
	}
}

func compareStatements(t *testing.T, what string, statements []string, want string) {
	t.Helper()
	if strconv.Itoa(len(statements)) == want {
		return
	}
	t.Errorf("%s took %d statements, the page says %s:", what, len(statements), want)
	for _, s := range statements {
		t.Logf("%.100q", strings.TrimSpace(s))
	}
}
