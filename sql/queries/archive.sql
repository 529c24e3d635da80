-- Archiving: reads tasks that will not run again, and deletes them.

-- RunsToArchive returns the runs of tasks that will not run again, from a task on. The runs started in the
-- time span, or were sent in it if they never started. The times are texts, as callers have them.
-- name: RunsToArchive :many
select t.id as task_id, t.policy as task_policy, t.status as task_status, r.id as task_run_id,
       t.arguments, t.type, r.backend_id, r.metadata, r.scheduled, r.started, r.ended,
       r.status as task_run_status
from task t join task_run r on r.task = t.id
where (t.status = 'disabled' or (t.status = 'completed' and t.policy = 'oneshot'))
  and coalesce(r.started, r.scheduled) >= (@after::text)::timestamptz
  and coalesce(r.started, r.scheduled) < (@before::text)::timestamptz
  and t.id >= @from_task
order by r.task, r.started
limit @max_runs::bigint;

-- DeleteArchived deletes the runs, and the tasks that have no run left.
-- name: DeleteArchived :exec
select swh_scheduler_delete_archived_tasks(@tasks::bigint[], @runs::bigint[]);

-- Automatic archiving of tasks that ended long ago, by task type.

-- FirstTask returns the number of the first task.
-- name: FirstTask :one
select coalesce(min(id), 0)::bigint as id from task;

-- EndOfTasks returns the number after the last task.
-- name: EndOfTasks :one
select (coalesce(max(id), -1) + 1)::bigint as id from task;

-- ArchivableTasks returns the tasks in a range of numbers that belong to no graph and ended before their
-- type's moment.
-- name: ArchivableTasks :many
select id::bigint from scheduler_go.archivable_tasks(@first_task, @end_task, @types::text[], @before::timestamptz[]) id;

-- ArchivableGraphs returns the graphs in a range of numbers whose tasks all ended before their types'
-- moments.
-- name: ArchivableGraphs :many
select id::bigint from scheduler_go.archivable_graphs(@first_graph, @end_graph, @types::text[], @before::timestamptz[]) id;

-- TasksOfGraph returns the next tasks of a graph after a given one, by number.
-- name: TasksOfGraph :many
select t.id from scheduler_go.graph_tasks g join task t on t.id = g.task
where g.graph = @graph and g.task > @after order by g.task limit @max_tasks::bigint;

-- CountRunsOfTasks counts tasks and their runs by type.
-- name: CountRunsOfTasks :many
select t.type, count(distinct t.id) as tasks, count(r.id) as runs
from task t left join task_run r on r.task = t.id
where t.id = any(@tasks::bigint[])
group by t.type;

-- ArchiveTasks deletes tasks that have ended, with their runs, and returns them as JSON.
-- name: ArchiveTasks :many
select a.type::text as type, a.runs::bigint as runs, a.line::text as line from scheduler_go.archive_tasks(@tasks::bigint[]) a;
