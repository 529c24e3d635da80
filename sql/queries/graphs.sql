-- Graphs: their submission, and the drain that releases their tasks. See sql/graphs/submit.go and
-- sql/graphs/drain.go.

-- LockGraphs takes the advisory lock of graphs.
-- name: LockGraphs :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler graphs', 0));

-- TryLockGraphs takes the advisory lock of graphs if it is free, and reports whether it took it.
-- name: TryLockGraphs :one
select pg_try_advisory_xact_lock(hashtextextended('swh-scheduler graphs', 0));

-- GraphsPending reports whether the drain has work.
-- name: GraphsPending :one
select scheduler_go.graphs_pending(@at);

-- CheckDeadlines queues checks of tasks whose deadline has passed. It queues no second check of a task.
-- name: CheckDeadlines :one
select scheduler_go.check_graph_deadlines(@max_tasks, @at);

-- SpreadGraphChanges queues checks of the dependents of changed tasks. It returns the number of changes
-- that it took.
-- name: SpreadGraphChanges :one
select scheduler_go.spread_graph_changes(@max_changes, @max_edges);

-- TakeBackGraphFailures reopens tasks that could not run because of tasks that are open again. It returns
-- the number of changes that it took, the number of tasks locked by others, and whether more are left.
-- name: TakeBackGraphFailures :one
select b.taken::bigint as taken, b.put_off::bigint as put_off, b.more::boolean as more
from scheduler_go.take_back_graph_failures(@max_tasks, @max_edges, @at, make_interval(secs => @patience_seconds::double precision), @only_note) b;

-- SettleGraphTasks does queued checks: it releases or disables tasks. If these is not null, it checks these
-- tasks instead. reopened is whether TakeBackGraphFailures must run first.
-- name: SettleGraphTasks :one
select s.looked_at::bigint as looked_at, s.released::bigint as released, s.failed::bigint as failed, s.put_off::bigint as put_off, s.reopened::boolean as reopened
from scheduler_go.settle_graph_tasks(@max_tasks, @max_edges, @at, sqlc.narg(these)::bigint[]) s;

-- UnsettledGraphTasks lists the tasks of a graph, after a given one, that need a check. These are waiting
-- tasks that watch no dependency. In a cancelled graph, they are tasks not sent or with retries left.
-- name: UnsettledGraphTasks :many
select g.task
from scheduler_go.graph_tasks g
join scheduler_go.graphs s on s.id = g.graph
cross join lateral (select t.status, t.next_run, t.retries_left from task t where t.id = g.task offset 0) t
where g.graph = @graph::bigint and g.task > @after::bigint
  and case when s.cancelled is not null then t.status = 'next_run_not_scheduled' or t.status = 'next_run_scheduled' and t.retries_left <> 0
      else g.watch is null and t.status = 'next_run_not_scheduled' and t.next_run = scheduler_go.never() end
order by g.task limit @max_tasks;

-- NotifyGraphs wakes the runners, as tasks may be ready.
-- name: NotifyGraphs :exec
select pg_notify('scheduler_go_graph', '');

-- CheckGraphTasks queues checks of waiting tasks in a range of numbers whose dependency ended without a
-- recorded change, for instance while triggers were off. It also forgets deleted tasks without dependents.
-- name: CheckGraphTasks :one
select scheduler_go.check_graph_tasks(@first_task, @end_task);

-- EndOfGraphTasks returns the number after the last task of a graph, existing or deleted.
-- name: EndOfGraphTasks :one
select (greatest((select max(task) from scheduler_go.graph_tasks), (select max(task) from scheduler_go.graph_gone), -1) + 1)::bigint as task;

-- FirstGraphTask returns the number of the first task of a graph.
-- name: FirstGraphTask :one
select coalesce(least((select min(task) from scheduler_go.graph_tasks), (select min(task) from scheduler_go.graph_gone)), 0)::bigint as task;

-- EndOfGraphs returns the number after the last graph.
-- name: EndOfGraphs :one
select (coalesce(max(id), -1) + 1)::bigint as id from scheduler_go.graphs;

-- FirstGraph returns the number of the first graph.
-- name: FirstGraph :one
select coalesce(min(id), 0)::bigint as id from scheduler_go.graphs;

-- Submission: tasks get numbers first, dependencies lower ones than their dependents.

-- TasksToDependOn returns the numbers of existing tasks among the given ones.
-- name: TasksToDependOn :many
select id, policy from task where id = any(@ids::bigint[]);

-- LockDependencies locks tasks, so that they end only after this transaction. The trigger at their end then
-- sees the rows of the tasks that wait for them.
-- name: LockDependencies :many
select id from task where id = any(@ids::bigint[]) order by id for share;

-- CreateGraph creates a graph.
-- name: CreateGraph :one
insert into scheduler_go.graphs (name, submitted) values (@name, @submitted) returning id;

-- TakeGraphKey writes the key of a submission or extension, unless it is taken.
-- name: TakeGraphKey :execrows
insert into scheduler_go.graph_keys (key, graph, digest) values (@key, @graph, @digest) on conflict do nothing;

-- GraphKey returns the graph and the request that a key belongs to.
-- name: GraphKey :one
select graph, digest from scheduler_go.graph_keys where key = @key;

-- NextTaskIDs reserves numbers for tasks, in ascending order.
-- name: NextTaskIDs :many
select nextval('task_id_seq')::bigint as id from generate_series(1, @count::bigint);

-- CreateGraphTasks creates one-shot tasks. Each has retries as its retries says, or if that is -1, as its
-- type says.
-- name: CreateGraphTasks :exec
insert into task (id, type, arguments, next_run, current_interval, status, policy, retries_left, priority)
select n.id, n.type, n.arguments::jsonb, case when n.waits then scheduler_go.never() else @at::timestamptz end,
       tt.default_interval, 'next_run_not_scheduled', 'oneshot',
       case when n.retries >= 0 then n.retries else coalesce(tt.num_retries, 0) end,
       nullif(n.priority, '')::task_priority
from (select unnest(@id::bigint[]) as id, unnest(@type::text[]) as type, unnest(@arguments::text[]) as arguments,
             unnest(@waits::boolean[]) as waits, unnest(@retries::bigint[]) as retries, unnest(@priority::text[]) as priority) n
join task_type tt on tt.type = n.type;

-- RecordGraphTasks adds tasks to a graph. Watch 0, a deadline in the year 1 and retries -1 stand for null.
-- name: RecordGraphTasks :exec
insert into scheduler_go.graph_tasks (task, graph, name, any_result, dependencies, deadline, watch, retries)
select n.id, @graph::bigint, n.name, n.any_result, n.dependencies, nullif(n.deadline, '0001-01-01 00:00:00+00'), nullif(n.watch, 0), nullif(n.retries, -1)
from (select unnest(@id::bigint[]) as id, unnest(@name::text[]) as name, unnest(@any_result::boolean[]) as any_result,
             unnest(@dependencies::integer[]) as dependencies, unnest(@deadline::timestamptz[]) as deadline,
             unnest(@watch::bigint[]) as watch, unnest(@retries::bigint[]) as retries) n;

-- RecordGraphEdges writes dependencies between tasks. An empty condition stands for null.
-- name: RecordGraphEdges :exec
insert into scheduler_go.graph_edges (task, depends_on, needs)
select n.task, n.depends_on, nullif(n.needs, '')
from (select unnest(@task::bigint[]) as task, unnest(@depends_on::bigint[]) as depends_on, unnest(@needs::text[]) as needs) n;

-- LockGraphTasks locks tasks against changes until this transaction ends.
-- name: LockGraphTasks :exec
select from task where id = any(@ids::bigint[]) order by id for no key update;

-- ChangeDependencies deletes dependencies of tasks and updates the tasks' counts of dependencies. It clears
-- the watched dependency of each task until its check.
-- name: ChangeDependencies :exec
with removed as (
  delete from scheduler_go.graph_edges e
  using (select unnest(@remove_of::bigint[]) as task, unnest(@remove::bigint[]) as depends_on) r
  where e.task = r.task and e.depends_on = r.depends_on
)
update scheduler_go.graph_tasks g set dependencies = g.dependencies + n.more, watch = null
from (select unnest(@tasks::bigint[]) as task, unnest(@more::integer[]) as more) n where g.task = n.task;

-- DependenciesOf lists the dependencies of the tasks.
-- name: DependenciesOf :many
select task, depends_on, needs from scheduler_go.graph_edges where task = any(@tasks::bigint[]);

-- EdgesBelow lists the direct and indirect dependencies of the tasks.
-- name: EdgesBelow :many
select e.task::bigint as task, e.depends_on::bigint as depends_on from scheduler_go.graph_edges_below(@tasks::bigint[]) e;

-- CheckTasks queues checks of tasks.
-- name: CheckTasks :exec
insert into scheduler_go.graph_checks (task) select unnest(@tasks::bigint[]);

-- Changes of graphs by people.

-- CancelGraph marks a graph as cancelled, and queues checks of its tasks that have not ended.
-- name: CancelGraph :execrows
with graph as (
  update scheduler_go.graphs s set cancelled = coalesce(s.cancelled, @at::timestamptz) where s.id = @graph returning s.id
), checks as (
  insert into scheduler_go.graph_checks (task)
  select g.task from graph
  join scheduler_go.graph_tasks g on g.graph = graph.id
  join task t on t.id = g.task and t.status in ('next_run_not_scheduled', 'next_run_scheduled')
)
select from graph;

-- ReviveGraph reverts CancelGraph. Tasks that were with workers then have all their retries again.
-- name: ReviveGraph :execrows
with graph as materialized (
  select s.id, s.cancelled from scheduler_go.graphs s where s.id = @graph for update
), revived as (
  update scheduler_go.graphs s set cancelled = null from graph where s.id = graph.id
), tries as (
  update task t set retries_left = sent.retries
  from (
    select w.id, coalesce(g.retries, tt.num_retries, 0) as retries
    from graph
    join scheduler_go.graph_tasks g on g.graph = graph.id
    join task w on w.id = g.task
    join task_type tt on tt.type = w.type
    where graph.cancelled is not null and w.status = 'next_run_scheduled' and w.retries_left = 0
    order by w.id for update of w
  ) sent
  where t.id = sent.id
)
select from graph;

-- RetryGraphTasks reopens the next failed or never run tasks of a graph, after a given one: they wait, and
-- their checks are queued.
-- name: RetryGraphTasks :many
select scheduler_go.reopen_graph_tasks(@graph::bigint, @after::bigint, @max_tasks::bigint, @at::timestamptz)::bigint as id;

-- ReleaseTask lets a waiting task run at once, even with unmet dependencies.
-- name: ReleaseTask :execrows
with released as (
  update task set next_run = @at
  where id = @task and status = 'next_run_not_scheduled' and next_run = scheduler_go.never()
  returning id
)
update scheduler_go.graph_tasks g set watch = null from released where g.task = released.id;

-- Reads of graphs.

-- Graphs lists graphs in a range of numbers, newest first. It counts tasks by state among the last
-- max_tasks of each graph, and reads at most max_looked graphs. A state is open, failed, completed or
-- cancelled; '' is any.
-- name: Graphs :many
select s.id, s.name, s.submitted, s.cancelled,
       n.tasks::bigint as tasks, n.waiting::bigint as waiting, n.ready::bigint as ready, n.sent::bigint as sent, n.running::bigint as running,
       n.completed::bigint as completed, n.failed::bigint as failed, n.never_run::bigint as never_run,
       (n.tasks = @max_tasks::bigint and exists (select from scheduler_go.graph_tasks o where o.graph = s.id offset @max_tasks::bigint))::boolean as more
from (
  select a.id, a.name, a.submitted, a.cancelled from scheduler_go.graphs a where a.id >= @first_graph::bigint and a.id < @end_graph::bigint
  order by a.id desc limit @max_looked::bigint
) s
cross join lateral (
  select count(*) as tasks,
         count(*) filter (where st.state = 'waiting') as waiting,
         count(*) filter (where st.state = 'ready') as ready,
         count(*) filter (where st.state = 'sent') as sent,
         count(*) filter (where st.state = 'running') as running,
         count(*) filter (where st.state = 'completed') as completed,
         count(*) filter (where st.state = 'failed') as failed,
         count(*) filter (where st.state not in ('waiting', 'ready', 'sent', 'running', 'completed', 'failed')) as never_run
  from (select g.task, g.state from scheduler_go.graph_states g where g.graph = s.id order by g.task desc limit @max_tasks::bigint) st
) n
where position(@part_of_name::text in s.name) > 0
  and (sqlc.narg(after)::timestamptz is null or s.submitted >= sqlc.narg(after))
  and (sqlc.narg(before)::timestamptz is null or s.submitted < sqlc.narg(before))
  and (@state::text <> 'cancelled' or s.cancelled is not null) -- decided before the graph's tasks are counted
  and case @state::text
        when '' then true
        when 'cancelled' then true
        when 'open' then n.waiting + n.ready + n.sent + n.running > 0
        when 'failed' then n.failed + n.never_run > 0 and s.cancelled is null
        when 'completed' then n.completed = n.tasks and n.tasks > 0
      end
order by s.id desc limit @max_graphs::bigint;

-- PlaceOfGraphs returns the number of the graph that follows @passed graphs below end_graph, downwards.
-- name: PlaceOfGraphs :many
select id from scheduler_go.graphs where id < @end_graph order by id desc limit 1 offset @passed;

-- GraphAtTask returns the graph of the task that follows @passed tasks, downwards from the last task of the
-- last graph below end_graph.
-- name: GraphAtTask :many
select graph from scheduler_go.graph_tasks where graph < @end_graph order by graph desc, task desc limit 1 offset @passed;

-- SizeOfGraph counts the tasks of a graph, up to a bound, and their dependencies.
-- name: SizeOfGraph :one
select count(*)::bigint as tasks, coalesce(sum(t.dependencies), 0)::bigint as edges
from (select a.dependencies from scheduler_go.graph_tasks a where a.graph = @graph::bigint limit @max_tasks::bigint) t;

-- GraphTasks lists the tasks of a graph, dependencies before their dependents.
-- name: GraphTasks :many
select st.graph, st.task as id, st.name, st.type, st.state, st.any_result, st.dependencies, st.deadline, st.failed_by, st.since
from scheduler_go.graph_states st where st.graph = @graph order by st.task;

-- GraphTasksOf returns the tasks' rows in their graphs.
-- name: GraphTasksOf :many
select st.graph, st.task as id, st.name, st.type, st.state, st.any_result, st.dependencies, st.deadline, st.failed_by, st.since
from scheduler_go.graph_states st where st.task = any(@tasks::bigint[]) order by st.task;

-- GraphEdges lists the dependencies of a graph's tasks.
-- name: GraphEdges :many
select e.task, e.depends_on, e.needs
from scheduler_go.graph_tasks g
cross join lateral (select d.* from scheduler_go.graph_edges d where d.task = g.task offset 0) e
where g.graph = @graph order by g.task, e.depends_on;

-- UnmetDependencies lists the dependencies that a task waits for, or that prevent it from running.
-- name: UnmetDependencies :many
select d.depends_on as id, (d.fate is not null)::boolean as broken, coalesce(g.name, '')::text as name, coalesce(g.graph, 0)::bigint as graph,
       coalesce(t.type, '')::text as type, coalesce(t.status::text, 'deleted')::text as status,
       coalesce(e.needs, case when w.any_result then 'resolved' else 'completed' end)::text as condition
from scheduler_go.graph_dependencies d
join scheduler_go.graph_edges e on e.task = d.task and e.depends_on = d.depends_on
join scheduler_go.graph_tasks w on w.task = d.task
left join scheduler_go.graph_tasks g on g.task = d.depends_on
left join task t on t.id = d.depends_on
where d.task = @task and (d.unmet or d.fate is not null)
order by d.depends_on limit @max_dependencies;

-- Blockers follows dependencies that are not met, the lowest number of each task, and returns where each path
-- ends: the last task, and how many dependencies away.
-- name: Blockers :many
with recursive path (direct, task, links) as (
  select d.id, d.id, 0 from unnest(@tasks::bigint[]) as d (id)
  union all
  select p.direct, n.depends_on, p.links + 1
  from path p
  cross join lateral (
    select d.depends_on from scheduler_go.graph_dependencies d
    where d.task = p.task and d.depends_on <> d.task and d.unmet order by d.depends_on limit 1
  ) n
  where p.links < @max_links::integer
)
select l.direct::bigint as direct, l.task::bigint as id, l.links::integer as links, coalesce(s.name, '')::text as name, coalesce(s.graph, 0)::bigint as graph,
       coalesce(s.state, t.status::text, 'deleted')::text as state
from (select distinct on (p.direct) p.direct, p.task, p.links from path p order by p.direct, p.links desc) l
left join lateral (select g.name, g.graph, g.state from scheduler_go.graph_states g where g.task = l.task offset 0) s on true
left join task t on t.id = l.task
order by l.direct;

-- GraphTask returns a task's row in its graph; no row for a task without a graph.
-- name: GraphTask :many
select st.graph, st.task as id, st.name, st.type, st.state, st.any_result, st.dependencies, st.deadline, st.failed_by, st.since
from scheduler_go.graph_states st where st.task = @task;

-- Runtimes returns the mean runtime of the last 1,000 runs of each type, in seconds.
-- name: Runtimes :many
select t.type::text as type, avg(d.runtime)::double precision as seconds
from unnest(@types::text[]) as t (type)
cross join lateral (select r.runtime from scheduler_go.run_durations r where r.type = t.type order by r.recorded desc limit 1000) d
group by t.type;

-- GraphEnds returns when the graph's tasks last ended, by their runs.
-- name: GraphEnds :many
select g.task, r.ended::timestamptz as ended
from scheduler_go.graph_tasks g
cross join lateral (
  select max(r.ended) as ended from task_run r
  where r.task = g.task and isfinite(r.ended) and r.status in ('eventful', 'uneventful', 'failed', 'permfailed', 'lost')
) r
where g.graph = @graph and r.ended is not null;

-- EmptyGraphs returns the graphs in a range of numbers that have no tasks and no tasks with dependents.
-- name: EmptyGraphs :many
select id::bigint from scheduler_go.empty_graphs(@first_graph, @end_graph) id;

-- ForgetGraphTasks deletes our rows of a graph's tasks.
-- name: ForgetGraphTasks :execrows
with gone as (
  delete from scheduler_go.graph_tasks
  where task = any(array(select g.task from scheduler_go.graph_tasks g where g.graph = @graph order by g.task limit @max_tasks))
  returning task
), edges as (
  delete from scheduler_go.graph_edges e using gone where e.task = gone.task
  returning e.task
), outside as (
  delete from scheduler_go.graph_gone o using gone where o.task = gone.task
)
select from gone;

-- ForgetGraph deletes a graph without tasks.
-- name: ForgetGraph :exec
with keys as (delete from scheduler_go.graph_keys k where k.graph = @graph)
delete from scheduler_go.graphs where id = @graph;
