-- Tasks: creation, search, and changes by people.

-- MakeTaskTable creates the temporary table tmp_task for this transaction.
-- name: MakeTaskTable :exec
select swh_scheduler_mktemp_task();

-- FillTaskTable inserts the tasks to create. They come as one JSON list, as its fields, unlike array
-- elements, can be null.
-- name: FillTaskTable :exec
insert into tmp_task (type, arguments, next_run, status, policy, retries_left, priority)
select type, arguments, next_run, status, policy, retries_left, priority
from json_to_recordset(@tasks::json) as new (
  type text, arguments jsonb, next_run timestamptz, status task_status,
  policy task_policy, retries_left bigint, priority task_priority);

-- CreateTasksFromTable creates the tasks that don't exist yet, by the Python scheduler's rule.
-- name: CreateTasksFromTable :many
select id, type, arguments, next_run, current_interval, status, policy, retries_left, priority
from swh_scheduler_create_tasks_from_temp()
order by id;

-- TasksByID returns the tasks with the numbers.
-- name: TasksByID :many
select * from task where id = any(@ids::bigint[]) order by id;

-- SearchTasks finds tasks; a null parameter is no condition.
-- name: SearchTasks :many
select * from task
where (sqlc.narg(ids)::bigint[] is null or id = any(sqlc.narg(ids)::bigint[]))
  and (sqlc.narg(types)::text[] is null or type = any(sqlc.narg(types)::text[]))
  and (sqlc.narg(statuses)::text[] is null or status = any(sqlc.narg(statuses)::text[]::task_status[]))
  and (sqlc.narg(priorities)::text[] is null or priority = any(sqlc.narg(priorities)::text[]::task_priority[]))
  and (sqlc.narg(policy)::text is null or policy = sqlc.narg(policy)::text::task_policy)
  and (sqlc.narg(before)::timestamptz is null or next_run <= sqlc.narg(before)::timestamptz)
  and (sqlc.narg(after)::timestamptz is null or next_run >= sqlc.narg(after)::timestamptz)
order by id
limit sqlc.narg(max_tasks)::bigint;

-- ReadyTasks returns the ready tasks of a type, without priority or with any, the longest-waiting first. Tasks with
-- priority have an index, which serves a plan for any values only if their condition has none. One of the halves is empty.
-- name: ReadyTasks :many
(select t.* from task t
 where not @with_priority::boolean and t.priority is null and t.type = @type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
 order by t.next_run, t.id limit sqlc.narg(max_tasks)::bigint)
union all
(select t.* from task t
 where @with_priority::boolean and t.priority is not null and t.type = @type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
 order by t.next_run, t.id limit sqlc.narg(max_tasks)::bigint);

-- SetTaskStatus sets the status of tasks: all, or only those due and not completed. It sets the next run
-- unless that is null.
-- name: SetTaskStatus :exec
update task
set status = @status, next_run = coalesce(sqlc.narg(next_run), next_run)
where id = any(@ids::bigint[]) and (not @only_due::boolean or status <> 'completed' and next_run < @now);
