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

-- LanePlaces finds work of lanes: that of a task id, or the visits of an origin, each
-- with how many are sent before it from its line.
-- name: LanePlaces :many
select w.line, w.lane, coalesce(w.lane_name, '')::text as lane_name, w.queue, w.sent, w.timed_out, w.claimed, w.since, w.started,
  coalesce(w.soft_limit, 0)::double precision as soft_limit,
  (select count(*) from scheduler_go.lane_work b
   where not w.sent and b.line = w.line and b.lane = w.lane and not b.sent
     and ((b.timed_out = 0), b.since, b.place) < ((w.timed_out = 0), w.since, w.place)) as ahead
from scheduler_go.lane_work w
where w.task_id = @task_id::uuid or w.url = @url::text and w.visit_type = @visit_type::text
order by w.claimed, w.task_id;
