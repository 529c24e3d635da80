-- SilentRuns lists runs of some numbers and task types, scheduled or started before a
-- moment and not ended, whose tasks still wait for them. No message of theirs is on its
-- way, or in a lane where it may still wait for its turn.
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

-- LoseRuns ends runs as lost, unless something was heard of them meanwhile; the
-- peer's trigger then has their tasks retried by the rules of a failure.
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
