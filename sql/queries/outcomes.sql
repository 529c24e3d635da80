-- Statements for a batch of events. sql/ledger/settle.go runs them in order.

-- LockRuns locks the runs of events in the order that all listeners use. Each id costs one index look-up,
-- even if statistics don't show that ids are unique. A date that is not recorded, or infinite, is
-- that of the year 1.
-- name: LockRuns :many
select r.id, r.backend_id, r.task, r.status, coalesce(case when isfinite(r.scheduled) then r.scheduled end, '0001-01-01Z')::timestamptz as scheduled, coalesce(r.metadata ? 'error', false)::boolean as has_error, t.type
from public.task_run r
join public.task t on t.id = r.task
where r.id = any(array(
    select f.id from unnest(@backend_ids::text[]) as k (backend_id)
    cross join lateral (select s.id from public.task_run s where s.backend_id = k.backend_id offset 0) f))
  and r.backend_id = any(@backend_ids::text[]) -- checked again after the lock
order by r.id
for no key update of r;

-- NewestStarts returns the newest recorded starts of runs. Writers hold the run's lock.
-- name: NewestStarts :many
select run, event_time, worker from scheduler_go.run_starts where run = any(@runs::bigint[]);

-- LockTasks locks tasks by id, before the trigger on task_run locks them in the order of the runs.
-- name: LockTasks :exec
select id from public.task
where id = any(@ids::bigint[])
order by id
for no key update;

-- RecordStarts writes the newest start of each run. recorded is the date of the transaction: a listener may have received
-- the start long before, during an outage, and the list of running work reads by that date what it couldn't see before.
-- name: RecordStarts :exec
insert into scheduler_go.run_starts as s (run, event_time, worker, recorded)
select unnest(@run::bigint[]), unnest(@event_time::double precision[]), unnest(@worker::text[]), now()
on conflict (run) do update set event_time = excluded.event_time, worker = excluded.worker;

-- StartRuns marks open runs as started.
-- name: StartRuns :exec
update public.task_run r
set started = o.started,
    status = 'started',
    metadata = coalesce(r.metadata, '{}') || o.metadata::jsonb
from (select unnest(@run::bigint[]) as id,
             unnest(@at::timestamptz[]) as started,
             unnest(@metadata::text[]) as metadata) o
where r.id = o.id;

-- FillStarts adds a late start to ended runs. It must not set status: the trigger would move the task on a
-- second time.
-- name: FillStarts :exec
update public.task_run r
set started = coalesce(r.started, least(o.started, r.ended)),
    metadata = coalesce(r.metadata, '{}') || o.metadata::jsonb
from (select unnest(@run::bigint[]) as id,
             unnest(@at::timestamptz[]) as started,
             unnest(@metadata::text[]) as metadata) o
where r.id = o.id;

-- ForfeitRetries sets tasks to no retries until their next regular run.
-- name: ForfeitRetries :exec
update public.task set retries_left = 0 where id = any(@tasks::bigint[]) and retries_left <> 0;

-- EndRuns ends open runs, each once; the trigger then moves their tasks on. It must get at most one run of
-- a task. A run may start and end in one call, as each update of a run's times writes to four indexes. A
-- start in the year 1 stands for null.
-- name: EndRuns :exec
update public.task_run r
set started = coalesce(nullif(o.started, '0001-01-01Z'), r.started),
    ended = o.ended,
    status = o.status::public.task_run_status,
    metadata = coalesce(r.metadata, '{}') || o.metadata::jsonb
from (select unnest(@run::bigint[]) as id,
             unnest(@started::timestamptz[]) as started,
             unnest(@at::timestamptz[]) as ended,
             unnest(@status::text[]) as status,
             unnest(@metadata::text[]) as metadata) o
where r.id = o.id;

-- DisabledTasks returns the disabled ones of the tasks and locks them.
-- name: DisabledTasks :many
select id from public.task where id = any(@tasks::bigint[]) and status = 'disabled';

-- DisableTasks disables tasks again after the trigger has enabled them at the end of a run.
-- name: DisableTasks :exec
update public.task set status = 'disabled' where id = any(@tasks::bigint[]) and status <> 'disabled';

-- FillErrors gives failed runs without an error text the text of a later report: Celery reports some
-- failures twice, once without it.
-- name: FillErrors :exec
update public.task_run r
set metadata = coalesce(r.metadata, '{}') || jsonb_build_object('error', o.error)
from (select unnest(@run::bigint[]) as id, unnest(@error::text[]) as error) o
where r.id = o.id;

-- RevokeRetries takes back the retry after a failed run that a person revoked. A one-shot task is then
-- done, and a recurring one waits for its next regular run. It does nothing once the task has been sent
-- again or changed by others.
-- name: RevokeRetries :exec
with revoked as (
  update public.task_run r
  set metadata = coalesce(r.metadata, '{}') || jsonb_build_object('not_retried', o.reason)
  from (select unnest(@run::bigint[]) as id, unnest(@reason::text[]) as reason) o
  where r.id = o.id and not coalesce(r.metadata ? 'not_retried', false)
  returning r.id, r.task, r.ended)
update public.task t
set status = case t.policy when 'oneshot' then 'disabled' else t.status end,
    next_run = case t.policy when 'oneshot' then t.next_run else r.ended + t.current_interval end,
    retries_left = case t.policy when 'oneshot' then 0 else coalesce(k.num_retries, 0) end
from revoked r, public.task_type k
where t.id = r.task and k.type = t.type and t.status = 'next_run_not_scheduled'
  and t.next_run = r.ended + coalesce(k.retry_delay, interval '1 hour')
  and not exists (select from public.task_run later where later.task = t.id and later.id > r.id);

-- RecordDurations records the durations of runs. A repeat changes nothing.
-- name: RecordDurations :exec
insert into scheduler_go.run_durations (run, type, runtime, recorded)
select r.id, t.type, o.runtime, o.recorded
from (select unnest(@run::bigint[]) as id,
             unnest(@seconds::double precision[]) as runtime,
             unnest(@received::timestamptz[]) as recorded) o
join public.task_run r on r.id = o.id
join public.task t on t.id = r.task
on conflict do nothing;

-- ForgetStarts deletes starts of runs that get no further events.
-- name: ForgetStarts :exec
delete from scheduler_go.run_starts where recorded < @before;

-- ForgetDurations deletes durations that are too old for an estimate.
-- name: ForgetDurations :exec
delete from scheduler_go.run_durations where recorded < @before;

-- RejectEvents sets aside events that cannot be applied, if they are about known runs or have always set.
-- name: RejectEvents :exec
insert into scheduler_go.rejected_events (received, backend_id, event, sqlstate, reason)
select e.received, e.backend_id, e.event, e.sqlstate, e.reason
from (select unnest(@received::timestamptz[]) as received,
             unnest(@backend_id::text[]) as backend_id,
             unnest(@event::text[]) as event,
             unnest(@sql_state::text[]) as sqlstate,
             unnest(@reason::text[]) as reason,
             unnest(@always::boolean[]) as always) e
where e.always or exists (select from public.task_run r where r.backend_id = e.backend_id);

-- ForgetOldRejectedEvents deletes events set aside before a moment.
-- name: ForgetOldRejectedEvents :execrows
delete from scheduler_go.rejected_events where received < @before;

-- ForgetRejectedEvents deletes all but the newest rows.
-- name: ForgetRejectedEvents :exec
delete from scheduler_go.rejected_events
where id <= (select max(id) from scheduler_go.rejected_events) - @keep::bigint;
