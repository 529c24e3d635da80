package graphs_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/graphs"
)

// largeGraph returns n tasks; each depends on four earlier ones.
func largeGraph(t testing.TB, n int) graphs.NewGraph {
	r := seed.Rand(t)
	g := graphs.NewGraph{Name: "large", Tasks: make([]graphs.NewTask, n)}
	for i := range g.Tasks {
		t := graphs.NewTask{
			Name: fmt.Sprint("task-", i), Type: "step",
			Arguments: model.TaskArguments{Kwargs: fmt.Appendf(nil, `{"url": "https://example.org/project/%d"}`, i)},
		}
		if i >= 4 {
			first := max(0, i-1000)
			for k := range 4 { // four different ones
				span := (i - first) / 4
				t.DependsOn = append(t.DependsOn, graphs.NewDependency{Place: first + k*span + r.IntN(span)})
			}
		}
		g.Tasks[i] = t
	}
	return g
}

// BenchmarkSubmitGraph submits graphs of growing size. One operation is one edge.
func BenchmarkSubmitGraph(b *testing.B) {
	for _, tasks := range []int{2500, 25_000, 100_000, 250_000} {
		b.Run(fmt.Sprintf("edges=%d", 4*tasks), func(b *testing.B) {
			g := largeGraph(b, tasks)
			for range b.N {
				b.StopTimer()
				store := graphStore(b)
				b.StartTimer()
				began := time.Now()
				if _, err := store.SubmitGraph(b.Context(), g, time.Now()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/graph")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4*tasks), "ns/edge")
		})
	}
}

// endAll makes four listeners end one run of each task, in batches of 50, and returns the time. drained is
// the time of the drain beside them.
func endAll(b *testing.B, store *db.Store, tasks []int64, drain bool) (took time.Duration) {
	b.Helper()
	testenv.Exec(b, store.Pool(), `with sent as (update task set status = 'next_run_scheduled' where id = any($1))
		insert into task_run (task, backend_id, scheduled) select id, 'run-' || id, now() from unnest($1::bigint[]) id`, tasks)
	testenv.Exec(b, store.Pool(), "analyze task, task_run")
	var next atomic.Int64
	const batch = 50
	began := time.Now()
	var listeners errgroup.Group
	for range 4 {
		listeners.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch
				if from >= len(tasks) {
					return nil
				}
				var outcomes []settle.Outcome
				for _, id := range tasks[from:min(from+batch, len(tasks))] {
					outcomes = append(outcomes, ended(fmt.Sprint("run-", id), model.RunEventful, 1))
				}
				if err := (settle.Store{Store: store}).ApplyOutcomes(b.Context(), outcomes); err != nil {
					return err
				}
			}
		})
	}
	var drains errgroup.Group
	done := make(chan struct{})
	if drain {
		drains.Go(func() error {
			for {
				round, err := store.AdvanceGraphs(b.Context(), time.Now())
				if err != nil {
					return err
				}
				if round.More {
					continue
				}
				select {
				case <-done:
					return drainGraphs(b.Context(), store, time.Now())
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	err := listeners.Wait()
	close(done)
	if drainErr := drains.Wait(); err == nil {
		err = drainErr
	}
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// BenchmarkOutcomesWithDependents compares the ends of tasks without dependents and with one each that is
// not released. The dependent waits for another task. It watches that one, submitted later, or, in the
// worst case, the task that ends. The drain, which moves the watch, is measured separately.
func BenchmarkOutcomesWithDependents(b *testing.B) {
	const n = 10_000
	for _, dependents := range []string{"none", "unwatched", "watched"} {
		b.Run("dependents="+dependents, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				store := graphStore(b)
				g := graphs.NewGraph{Tasks: make([]graphs.NewTask, 0, 2*n+2)}
				add := func(t graphs.NewTask) {
					t.Name, t.Type = fmt.Sprint(len(g.Tasks)), "step"
					g.Tasks = append(g.Tasks, t)
				}
				for range n + 2 { // the first and the last never end
					add(graphs.NewTask{})
				}
				for i := range n {
					add(map[string]graphs.NewTask{"none": {}, "unwatched": on(1+i, n+1), "watched": on(0, 1+i)}[dependents])
				}
				submitted, err := store.SubmitGraph(b.Context(), g, time.Now())
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				took := endAll(b, store, submitted.Tasks[1:1+n], false)
				b.ReportMetric(float64(took.Nanoseconds())/n, "ns/end")
				began := time.Now()
				if err := drainGraphs(b.Context(), store, time.Now()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/n, "ns/drained")
			}
		})
	}
}

// BenchmarkJoin ends tasks by four listeners. One task waits for each join of 100 or of 10,000.
func BenchmarkJoin(b *testing.B) {
	const n = 10_000
	for _, size := range []int{100, n} {
		b.Run(fmt.Sprint("join=", size), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				store := graphStore(b)
				var g graphs.NewGraph
				for i := range n {
					g.Tasks = append(g.Tasks, graphs.NewTask{Name: fmt.Sprint("end-", i), Type: "step"})
				}
				for from := 0; from < n; from += size {
					t := graphs.NewTask{Name: fmt.Sprint("join-", from), Type: "step"}
					for i := range size {
						t.DependsOn = append(t.DependsOn, graphs.NewDependency{Place: from + i})
					}
					g.Tasks = append(g.Tasks, t)
				}
				submitted, err := store.SubmitGraph(b.Context(), g, time.Now())
				if err != nil {
					b.Fatal(err)
				}
				tasks := submitted.Tasks[:n]
				seed.Rand(b).Shuffle(n, func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
				b.StartTimer()
				took := endAll(b, store, tasks, true)
				b.ReportMetric(float64(took.Nanoseconds())/n, "ns/end")
				b.StopTimer()
				if waiting := testenv.Value[int](b, store.Pool(), "select count(*) from task where next_run = scheduler_go.never()"); waiting != 0 {
					b.Fatalf("%d joins still wait", waiting)
				}
				b.StartTimer()
			}
		})
	}
}
