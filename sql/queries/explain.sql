-- Why a task or an origin is not scheduled yet.

-- TasksAhead counts, up to a bound, the ready tasks of the same type that a runner claims before the task.
-- name: TasksAhead :one
select count(*) from (
  select from task t join task one on one.id = @task
  where t.type = one.type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
    and (t.priority is null) = (one.priority is null)
    and (scheduler_go.turn(coalesce(t.priority, 'low'), t.next_run, @ageing::double precision), t.id)
      < (scheduler_go.turn(coalesce(one.priority, 'low'), least(one.next_run, @now), @ageing::double precision), one.id)
  limit @max_tasks
) ahead;

-- WaitingMessages lists outgoing messages: that of a task id, or those for visits of a URL. Each has the
-- number of messages sent before it.
-- name: WaitingMessages :many
select o.queue, coalesce(o.since, o.claimed)::timestamptz as since, o.attempts, coalesce(o.last_error, '')::text as reason,
  greatest(o.not_before, o.since, o.claimed)::timestamptz as again, -- not_before is -infinity before the first delay
  (select count(*) from scheduler_go.work b
   where b.state = 'outgoing' and (not b.urgent, b.place) < (not o.urgent, o.place) and b.not_before <= @now) as ahead
from scheduler_go.work o
where o.state = 'outgoing' and (o.task_id::text = @task_id::text or o.task_name = @task_name::text and o.kwargs ->> 'url' = @url::text)
order by o.place;

-- LanePlaces lists work on lanes: that of a task id, or the visits of an origin. Each has the number of
-- messages that its backlog sends before it.
-- name: LanePlaces :many
select w.lane_set::text as lane_set, w.lane::smallint as lane, coalesce(w.lane_name, '')::text as lane_name, w.queue, w.state <> 'backlog' as sent,
  w.timed_out, w.claimed, w.since::timestamptz as since, w.started, coalesce(w.soft_limit, 0)::double precision as soft_limit,
  (select count(*) from scheduler_go.work b
   where w.state = 'backlog' and b.state = 'backlog' and b.lane_set = w.lane_set and b.lane = w.lane
     and ((b.timed_out = 0), b.since, b.place) < ((w.timed_out = 0), w.since, w.place)) as ahead
from scheduler_go.work w
where w.lane_set is not null and w.state <> 'settled'
  and (w.task_id = @task_id::uuid or w.url = @url::text and w.visit_type = @visit_type::text)
order by w.claimed, w.task_id;
