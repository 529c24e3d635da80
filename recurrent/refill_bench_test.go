package recurrent

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/celery"
	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// refillWorld is a database with a queue of 10,000 and the origins of 50 listers. One lister has half of
// the origins.
func refillWorld(b *testing.B, origins int, shares map[string]model.Shares) *db.Store {
	b.Helper()
	dsn := testenv.Database(b)
	store := testenv.Open(b, dsn)
	for _, statement := range []string{
		`insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.loader.git', 10000)`,
		`insert into listers (name, instance_name, current_state, updated) select 'l' || n, '', '{}', now() from generate_series(1, 50) n`,
		fmt.Sprintf(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		 select l.id, 'https://forge.example.org/' || n, 'git', '{}', true, now(), case when n %% 5 < 4 then now() - n * interval '1 second' end
		 from generate_series(1, %d) n join listers l on l.name = 'l' || case when n %% 2 = 0 then 1 else 1 + n %% 50 end`, origins),
		`insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled, last_snapshot)
		 select url, 'git', now() - interval '500 days', now() - interval '500 days', 'successful', now() - interval '501 days', '\x00'
		 from listed_origins where random() < 0.5`,
		"analyze",
	} {
		testenv.Exec(b, store.Pool(), statement)
	}
	testenv.Migrate(b, dsn, migrate.Options{Shares: shares})
	bench.Drain(b, store)
	testenv.Exec(b, store.Pool(), "vacuum analyze")
	return store
}

// BenchmarkRefill fills an empty queue of 10,000 out of a million origins: it picks, marks, claims and
// delivers.
func BenchmarkRefill(b *testing.B) {
	store, broker := refillWorld(b, 1_000_000, nil), testenv.RabbitMQ(b)
	address := parsed.Broker(b, broker.URL)
	publisher := celery.NewPublisher(address, celery.PublisherOptions{})
	b.Cleanup(func() { _ = publisher.Close() })
	inspector := celery.NewQueueInspector(address, broker.ManagementURL, celery.InspectorOptions{})
	b.Cleanup(func() { _ = inspector.Close() })
	log := slog.New(slog.DiscardHandler)
	deliverer := dispatch.NewDeliverer(store, publisher, log, prometheus.NewRegistry())
	s := New(Options{
		Store: store, Slots: dispatch.NewSlots(store, inspector, deliverer.Wake), Log: log, Reg: prometheus.NewRegistry(),
		Policies: config.DefaultSchedulingPolicy(),
	})
	r := &round{Scheduler: s, visitType: "git", log: log}
	ch := testenv.Channel(b, broker.URL)
	for b.Loop() {
		if _, err := r.runOnce(b.Context()); err != nil {
			b.Fatal(err)
		}
		if sent, err := deliverer.Drain(b.Context()); err != nil || sent.Confirmed != 10_000 {
			b.Fatalf("%+v, %v", sent, err)
		}
		b.StopTimer()
		if _, err := ch.QueuePurge("swh.loader.git", false); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/refill")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkClaims measures a claim of 10,000 visits: count the slots, pick, mark, write the ledger. It
// compares plain claims, shares between listers, lanes (half of the visits have recorded runtimes), and
// both. All variants start from the same database with the indexes for shares.
func BenchmarkClaims(b *testing.B) {
	shares := map[string]model.Shares{"load-git": {By: model.ShareByLister, Default: 1, HalfLife: time.Hour}}
	lanes := map[string][]model.Lane{"load-git": {
		{Name: "express", Queue: "express:{backend_name}", SoftTimeLimit: 40 * time.Second, TimeLimit: 44 * time.Second, Slots: 5000, MinSlots: 1},
		{Name: "slow", Queue: "{backend_name}", SoftTimeLimit: time.Hour, TimeLimit: 66 * time.Minute, Slots: 5000, MinSlots: 1},
	}}
	store, broker := refillWorld(b, bench.Size(500_000, 40_000), shares), testenv.RabbitMQ(b)
	execute := func(statements ...string) {
		for _, statement := range statements {
			testenv.Exec(b, store.Pool(), statement)
		}
	}
	execute(
		`insert into scheduler_go.lane_memory (memory, seconds, before, at_least, behind, recorded)
		 select hashtextextended('load-git ' || url, 0), 60 * random(), 60 * random(), false, 0, now() from origin_visit_stats`,
		`insert into scheduler_go.lane_sketches (lane_set, lister, first, bucket, weight, as_of)
		 select 'load-git', name, first, bucket, 100, now() from listers, (values (true), (false)) f (first), generate_series(0, 40) bucket`,
		"vacuum analyze")
	address := parsed.Broker(b, broker.URL)
	inspector := celery.NewQueueInspector(address, broker.ManagementURL, celery.InspectorOptions{})
	b.Cleanup(func() { _ = inspector.Close() })
	claim := func(name string, shares map[string]model.Shares, lanes map[string][]model.Lane) bench.Side {
		s := New(Options{
			Store: store, Slots: dispatch.NewSlots(store, inspector, func() {}), Log: slog.New(slog.DiscardHandler), Reg: prometheus.NewRegistry(),
			Policies: config.DefaultSchedulingPolicy(), Shares: shares, Lanes: lanes,
		})
		r := &round{Scheduler: s, visitType: "git", log: s.Log}
		return bench.Side{Name: name, Run: func() bench.Figures {
			execute("checkpoint")
			began := time.Now()
			if _, err := r.runOnce(b.Context()); err != nil {
				b.Fatal(err)
			}
			took := float64(time.Since(began).Microseconds()) / 1000
			if claimed := testenv.Value[int](b, store.Pool(), "select count(*) from scheduler_go.work"); claimed != 10_000 {
				b.Fatalf("%d visits were claimed", claimed)
			}
			execute("delete from scheduler_go.work", "delete from scheduler_go.shares", "delete from origin_visit_stats where last_visit is null",
				"update origin_visit_stats set last_scheduled = last_visit - interval '1 day' where last_scheduled > last_visit",
				"vacuum analyze scheduler_go.work, origin_visit_stats")
			bench.Drain(b, store)
			return bench.Figures{"ms": took}
		}}
	}
	plain := claim(bench.Plain, nil, nil)
	plain.Run() // reads the pages that all variants read
	bench.Compare(b, plain, claim("shares", shares, nil), claim("lanes", nil, lanes), claim("shares_and_lanes", shares, lanes))
}
