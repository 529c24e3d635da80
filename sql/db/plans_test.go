package db_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/sqltest"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// grow fills tables that were empty when the store first used them.
func grow(t *testing.T, store *db.Store) {
	t.Helper()
	testenv.Exec(t, store.Pool(), "insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor) values ('a', '', 'a', '1 day', '1 day', '1 day', 1)")
	testenv.Exec(t, store.Pool(), `with tasks as (
		insert into task (type, arguments, next_run, status, policy, current_interval)
		select 'a', '{}', now(), 'next_run_scheduled', 'recurring', '1 day' from generate_series(1, 100000) returning id)
		insert into task_run (task, backend_id, scheduled) select id, gen_random_uuid(), now() from tasks`)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, share_group, cost)
		select backend_id::uuid, case when id % 10 = 0 then 'outgoing' else 'sent' end, 'q', 'q', 'a', '[]', '{}', 'g', 1 from task_run`)
}

// A listener that started on empty tables looks up a batch's runs and work by index, before any ANALYZE of
// the grown tables.
func TestSettleLooksRunsUp(t *testing.T) {
	t.Parallel()
	store := testenv.OpenLocal(t, testenv.Database(t)+"?pool_max_conns=1")
	now := time.Now()
	settle := func(ids []uuid.UUID, change bool) (found int) {
		t.Helper()
		heard := ledger.Subjects{TaskIDs: ids}
		for _, id := range ids {
			heard.BackendIDs = append(heard.BackendIDs, id.String())
		}
		if err := store.Settle(t.Context(), heard, func(runs []ledger.LockedRun, work []ledger.LockedWork) (s ledger.Settlement) {
			if found = len(runs); !change {
				return s
			}
			if found == 0 { // prepares the statements without rows
				runs, work = []ledger.LockedRun{{ID: -1, Task: -1}}, []ledger.LockedWork{{TaskID: ids[0]}}
			}
			var wave []ledger.RunEnding
			for _, r := range runs {
				s.Begun = append(s.Begun, ledger.RunBegin{Run: r.ID, At: now})
				wave = append(wave, ledger.RunEnding{Run: r.ID, Task: r.Task, At: now, Status: model.RunEventful})
				s.Durations = append(s.Durations, ledger.RunDuration{Run: r.ID, Seconds: 1, Received: now})
			}
			s.Ended = [][]ledger.RunEnding{wave}
			for _, w := range work {
				s.WorkGone = append(s.WorkGone, w.TaskID)
			}
			return s
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, table := range []string{"task", "task_run", "scheduler_go.work"} { // set it before: the change invalidates plans
		testenv.Exec(t, store.Pool(), "alter table "+table+" set (autovacuum_enabled = false)")
	}
	for range 8 {
		settle([]uuid.UUID{uuid.New()}, true)
	}
	grow(t, store)
	ids := testenv.Column[uuid.UUID](t, store.Pool(), "select backend_id::uuid from task_run where id % 1000 = 0")
	blocks := func() (n int) {
		for _, table := range []string{"task", "task_run", "work"} {
			n += sqltest.BlocksOf(t, store, table)
		}
		return n
	}
	before := blocks()
	if n := settle(ids, false); n != 100 {
		t.Fatalf("%d runs were found", n)
	}
	if n := blocks() - before; n > 2600 { // reading all runs and work takes 5,000
		t.Errorf("%d blocks were read to lock 100 runs and their work", n)
	}
	scans := func() int {
		testenv.Exec(t, store.Pool(), "select pg_stat_force_next_flush()")
		return testenv.Value[int](t, store.Pool(), "select sum(seq_scan) from pg_stat_user_tables where relname in ('task', 'task_run', 'work')")
	}
	before = scans()
	settle(ids, true)
	if n := scans() - before; n > 0 {
		t.Errorf("whole tables were read %d times to end 100 runs", n)
	}
}

// The statements of claims and calls have cached plans. Those made for empty tables scan no whole table or
// index once the tables have grown.
func TestKeptPlansLookRowsUp(t *testing.T) {
	t.Parallel()
	conn := testenv.Connect(t, testenv.Database(t))
	testenv.Exec(t, conn, "set plan_cache_mode = force_generic_plan")
	statements := make(map[string]string)
	files, _ := filepath.Glob("../internal/queries/*.sql.go")
	for _, file := range files {
		for _, m := range regexp.MustCompile("(?s)`(-- name: (\\w+) .*?)`").FindAllSubmatch(testenv.Read(t, file), -1) {
			statements[string(m[2])] = string(m[1])
		}
	}
	for _, name := range []string{
		"ReadyTaskTypes", "LaneFeatures", "LaneSketches", "Backlogs", "SendBacklog", "InFlightByGroup", "ForgetShares",
		"TasksByID", "TaskRuns", "OpenRuns", "StartTaskRun", "EndTaskRun", "ReadyTasks", "GrabReadyTasks", "SetTaskStatus", "OriginStats", "CancelGraph", "GraphTasks", "GraphEdges",
		"Graphs", "PlaceOfGraphs", "GraphAtTask",
	} {
		testenv.Exec(t, conn, fmt.Sprintf("prepare %s as %s", name, statements[name]))
		parameters := testenv.Value[int](t, conn, "select cardinality(parameter_types) from pg_prepared_statements where name = lower($1)", name)
		execute := name
		if parameters > 0 {
			execute += "(" + strings.Join(slices.Repeat([]string{"null"}, parameters), ", ") + ")"
		}
		var explained []struct{ Plan plan }
		if err := json.Unmarshal(testenv.Value[[]byte](t, conn, "explain (format json) execute "+execute), &explained); err != nil {
			t.Fatal(err)
		}
		scans := explained[0].Plan.scans()
		if len(scans) == 0 {
			t.Errorf("%s reads no table that grows", name)
		}
		for _, scan := range scans {
			if scan.whole() {
				t.Errorf("%s reads all of %s %s", name, scan.Relation, scan.Index)
			}
			if scan.sorted && name != "ReadyTasks" { // which sorts the due tasks of a type, and only peeks
				t.Errorf("%s sorts what it reads of %s %s for its first rows", name, scan.Relation, scan.Index)
			}
		}
	}
}

// plan is a node of a plan as PostgreSQL explains it.
type plan struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Plans    []plan

	sorted bool // the node sorts all its rows to return the first ones
}

// growing matches the tables that grow with the archive or with the work in progress, and their indexes.
var growing = regexp.MustCompile(`^(task|task_run|listed_origins|origin_visit_stats|work|lane_memory|lane_sketches|graphs|graph_tasks|graph_edges)(_.*)?$`)

// scans returns the nodes of the plan that read growing tables.
func (p plan) scans() (found []plan) {
	if strings.HasSuffix(p.Type, "Scan") && p.Relation != "task_type" && (growing.MatchString(p.Relation) || growing.MatchString(p.Index)) {
		found = append(found, p)
	}
	for _, below := range p.Plans {
		below.sorted = p.Type == "Limit" && below.Type == "Sort" || p.Type != "Limit" && p.sorted
		found = append(found, below.scans()...)
	}
	return found
}

func (p plan) whole() bool {
	return p.Cond == "" && p.Type != "Bitmap Heap Scan"
}
