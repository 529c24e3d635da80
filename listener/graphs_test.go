package listener

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// joined submits n tasks with a sent run each, and a task that depends on all of them. Their names are the prefix
// and a number from 0.
func joined(t testing.TB, pg *database, store *db.Store, prefix string, n int) graphs.Submitted {
	t.Helper()
	g := graphs.NewGraph{}
	join := graphs.NewTask{Name: "join", Type: "good"}
	for i := range n {
		g.Tasks = append(g.Tasks, graphs.NewTask{Name: name(prefix, i), Type: "good"})
		join.DependsOn = append(join.DependsOn, graphs.NewDependency{Place: i})
	}
	g.Tasks = append(g.Tasks, join)
	submitted, err := store.SubmitGraph(t.Context(), g, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pg.exec(t, `with sent as (update task set status = 'next_run_scheduled' where id = any($1))
		insert into task_run (task, backend_id, scheduled)
		select id, $2 || '-' || (n - 1), now() from unnest($1::bigint[]) with ordinality u(id, n)`, submitted.Tasks[:n], prefix)
	return submitted
}

// drainGraphs releases tasks of graphs until the test ends. Like a runner, it retries while the database is
// unreachable.
func drainGraphs(t testing.TB, store *db.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var drain sync.WaitGroup
	drain.Go(func() {
		for ctx.Err() == nil {
			_, _ = store.AdvanceGraphs(ctx, time.Now())
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		stop()
		drain.Wait()
	})
}

// Four listeners share the events of a graph's runs, some redelivered after a commit whose acknowledgement was
// lost. The dependent task is released once, after the last run has ended.
func TestListenersReleaseJoinsOnce(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	store := openStore(t, pg.dsn)
	pg.exec(t, `create table releases (task bigint);
		create function note_release() returns trigger language plpgsql security definer as $$
		begin insert into public.releases values (new.id); return null; end $$;
		create trigger note_release after update of next_run on task for each row
		when (old.next_run = scheduler_go.never() and new.next_run <> old.next_run) execute function note_release()`)
	const n = 1500
	var graphs []graphs.Submitted
	x := newExchange(t, broker.URL)
	source := &deaf{Source: consumer(t, broker.URL)}
	stopDeaf := start(t, newTestListener(t, source, openStore(t, pg.dsn)))
	for range 3 {
		start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, pg.dsn)))
	}
	drainGraphs(t, store.Store)
	for i := range 3 {
		prefix := fmt.Sprintf("run%d", i)
		graphs = append(graphs, joined(t, pg, store.Store, prefix, n))
		// Each message twice: as likely as not at different listeners.
		var bodies [][]byte
		for _, body := range streams(t, prefix, n) {
			bodies = append(bodies, body, body)
		}
		x.publish(t, bodies...)
	}
	testenv.Becomes(t, "the deaf listener has heard something", true, func() bool { return source.lost.Load() > 0 })
	stopDeaf() // what it held comes again, to the others
	for _, g := range graphs {
		testenv.Becomes(t, "the join is released", true, func() bool {
			s, err := store.Graph(t.Context(), g.ID)
			return err == nil && s.Completed == n && s.Ready == 1
		})
	}
	testenv.Becomes(t, "messages in the queue", 0, func() int { return x.ready(t) })
	count := func(query string) int {
		t.Helper()
		return testenv.Value[int](t, pg.pool, query)
	}
	testenv.Becomes(t, "notes", 0, func() int {
		return count(`select (select count(*) from scheduler_go.graph_changes) + (select count(*) from scheduler_go.graph_checks)`)
	})
	joins, releases := count("select count(distinct task) from releases"), count("select count(*) from releases")
	if joins != len(graphs) || releases != len(graphs) {
		t.Errorf("%d joins were released %d times, want %d", joins, releases, len(graphs))
	}
}

// No release is lost when the database fails repeatedly, in the middle of batches and of releases.
func TestJoinIsReleasedAfterOutages(t *testing.T) {
	t.Parallel()
	pg, broker := ownDatabase(t), testenv.RabbitMQ(t)
	const n = 2500
	g := joined(t, pg, openStore(t, pg.dsn).Store, "run", n)
	cut, proxy := testenv.Through(t, pg.dsn, testenv.Proxy)
	drainGraphs(t, openStore(t, cut).Store)
	x := newExchange(t, broker.URL)
	for range 2 {
		start(t, newTestListener(t, consumer(t, broker.URL), openStore(t, cut)))
	}
	bodies := streams(t, "run", n)
	for part := range 5 {
		x.publish(t, bodies[part*n/25:(part+1)*n/25]...)
		testenv.Becomes(t, "some more have ended", true, func() bool { return pg.count(t, "run", "eventful") > part*n/5 })
		proxy.Cut()
		proxy.Restore()
	}
	testenv.Becomes(t, "the join is released", true, func() bool {
		return testenv.Value[bool](t, pg.pool, `select status = 'next_run_not_scheduled' and next_run <= now() from task where id = $1`, g.Tasks[n])
	})
	if got := pg.count(t, "run", "eventful"); got != n {
		t.Errorf("the join was released when %d of %d had ended", got, n)
	}
}
