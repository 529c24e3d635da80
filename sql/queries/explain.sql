-- What explains why a task or an origin has not been scheduled.

-- TasksAhead counts the ready tasks of a type that a runner takes before one, up
-- to a limit.
-- name: TasksAhead :one
select count(*) from (
  select from task t join task one on one.id = @task
  where t.type = one.type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
    and (t.priority is null) = (one.priority is null)
    and (coalesce(t.priority, 'low'), t.next_run, t.id) < (coalesce(one.priority, 'low'), one.next_run, one.id)
  limit @max_tasks
) ahead;

-- WaitingMessages lists messages of the outbox: that of a task id, or those that
-- visit a URL, each with how many are sent before it.
-- name: WaitingMessages :many
select o.queue, o.created_at, o.attempts, coalesce(o.last_error, '')::text as reason,
  greatest(o.not_before, o.created_at)::timestamptz as again, -- not_before is -infinity at first
 
  (select count(*) from scheduler_go.outbox b
   where (not b.urgent, b.id) < (not o.urgent, o.id) and b.not_before <= @now) as ahead
from scheduler_go.outbox o
where o.task_id::text = @task_id::text or o.task_name = @task_name::text and o.kwargs ->> 'url' = @url::text
order by o.id;
