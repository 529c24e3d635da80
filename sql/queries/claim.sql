-- Claims of tasks: their new state, their run and their message in one statement.

-- ReadyTaskTypes lists the task types that have something to run now, so that a
-- pass over hundreds of idle types costs one query.
-- name: ReadyTaskTypes :many
select tt.type
from task_type tt
where exists (
  select from task t
  where t.type = tt.type
    and t.status = 'next_run_not_scheduled'
    and t.next_run <= @now
    and (t.priority is not null) = @with_priority::boolean
);

-- ClaimTasks takes up to max_tasks ready tasks without priority, longest ready
-- first. Tasks that another claim holds are passed over.
-- name: ClaimTasks :one
with ready as (
  select id
  from task
  where task.type = @type and task.status = 'next_run_not_scheduled' and task.next_run <= @now
    and priority is null
  order by next_run
  limit @max_tasks
  for update skip locked
), claimed as (
  update task set status = 'next_run_scheduled'
  from ready where task.id = ready.id
  returning task.id, task.next_run, task.arguments, gen_random_uuid() as backend_id
), runs as (
  insert into task_run (task, backend_id, scheduled, status)
  select id, backend_id::text, @now, 'scheduled' from claimed order by claimed.next_run
), messages as (
  insert into scheduler_go.outbox (queue, task_id, task_name, args, kwargs)
  select @queue, backend_id, @task_name,
         coalesce(arguments -> 'args', '[]')::text::json,
         coalesce(arguments -> 'kwargs', '{}')::text::json
  from claimed order by claimed.next_run
)
select count(*) from claimed;

-- ClaimPriorityTasks takes up to max_tasks ready tasks of any priority, highest
-- priority first, then longest ready first; their messages are urgent.
-- name: ClaimPriorityTasks :one
with ready as (
  select id
  from task
  where task.type = @type and task.status = 'next_run_not_scheduled' and task.next_run <= @now
    and priority is not null
  order by priority, next_run -- the enum task_priority is declared high, normal, low
  limit @max_tasks
  for update skip locked
), claimed as (
  update task set status = 'next_run_scheduled'
  from ready where task.id = ready.id
  returning task.id, task.next_run, task.priority, task.arguments, gen_random_uuid() as backend_id
), runs as (
  insert into task_run (task, backend_id, scheduled, status)
  select id, backend_id::text, @now, 'scheduled' from claimed order by claimed.priority, claimed.next_run
), messages as (
  insert into scheduler_go.outbox (queue, task_id, task_name, args, kwargs, urgent)
  select @queue, backend_id, @task_name,
         coalesce(arguments -> 'args', '[]')::text::json,
         coalesce(arguments -> 'kwargs', '{}')::text::json, true
  from claimed order by claimed.priority, claimed.next_run
)
select count(*) from claimed;
