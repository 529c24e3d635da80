-- SilentRuns lists the runs of some numbers, scheduled or started before the moment given for their task
-- type and not ended, whose tasks still wait for them. It leaves out those whose message is in a
-- backlog or outgoing, or was sent to a lane and is not known to have started.
-- name: SilentRuns :many
select r.id, r.status, t.type as task_type, (t.priority is not null)::boolean as with_priority
from task_run r
join task t on t.id = r.task
join (select unnest(@types::text[]) as type, unnest(@before::timestamptz[]) as before) limits on limits.type = t.type
where r.id >= @first_id::bigint and r.id < @end_id::bigint
  and r.status in ('scheduled', 'started')
  and coalesce(r.started, r.scheduled) < limits.before
  and t.status = 'next_run_scheduled'
  and not exists (select from scheduler_go.work w where w.task_id::text = r.backend_id
    and (w.state in ('backlog', 'outgoing') or w.state = 'sent' and w.lane_set is not null and w.started is null))
order by r.id;

-- LoseRuns ends runs as lost, unless their status has changed meanwhile. The Python scheduler's trigger
-- then retries their tasks as after a failure.
-- name: LoseRuns :execrows
with silent as (
  select r.id from task_run r
  join (select unnest(@id::bigint[]) as id, unnest(@status::text[]) as status) seen on seen.id = r.id
  where r.status = seen.status::task_run_status
  order by r.id
  for update of r
)
update task_run r set status = 'lost', ended = @now::timestamptz
from silent where silent.id = r.id;
