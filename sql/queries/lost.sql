-- SilentRuns lists the runs in a range of numbers that were scheduled or started before their task type's
-- moment and have not ended, while their tasks wait for them. It leaves out runs whose message is outgoing
-- or in a backlog, or was sent to a lane without a known start, and runs with an infinite date. A run whose
-- task was respawned since is left alone, too: its end would move the task on while the newer run is under way.
-- name: SilentRuns :many
select r.id, r.status, t.type as task_type, (t.priority is not null)::boolean as with_priority, r.scheduled
from task_run r
join task t on t.id = r.task
join (select unnest(@types::text[]) as type, unnest(@before::timestamptz[]) as before) limits on limits.type = t.type
where r.id >= @first_id::bigint and r.id < @end_id::bigint
  and r.status in ('scheduled', 'started')
  and coalesce(r.started, r.scheduled) < limits.before and coalesce(isfinite(r.scheduled), true)
  and t.status = 'next_run_scheduled'
  and not exists (select from task_run newer where newer.task = r.task and newer.id > r.id)
  and not exists (select from scheduler_go.work w where w.task_id::text = r.backend_id
    and (w.state in ('backlog', 'outgoing') or w.state = 'sent' and w.lane_set is not null and w.started is null))
order by r.id;

-- LockSilentRuns locks runs, unless their status has changed or their task has a newer run meanwhile.
-- name: LockSilentRuns :many
select r.id, coalesce(r.backend_id, '') as backend_id from task_run r
join (select unnest(@id::bigint[]) as id, unnest(@status::text[]) as status) seen on seen.id = r.id
where r.status = seen.status::task_run_status
  and not exists (select from task_run newer where newer.task = r.task and newer.id > r.id)
order by r.id
for update of r;

-- LoseWork deletes the messages of lost runs from the ledger, and charges their groups.
-- name: LoseWork :exec
with lost as (
  select w.task_id from scheduler_go.work w where w.task_id = any(@task_ids::uuid[]) order by w.task_id for update
), gone as (
  delete from scheduler_go.work w using lost where w.task_id = lost.task_id
  returning w.home, w.share_group, w.cost, w.state
)
insert into scheduler_go.share_charges (queue, share_group, heard, seconds, pieces)
select home, share_group, @now, sum(cost), count(*) from gone
where share_group is not null and state <> 'settled'
group by home, share_group;

-- LoseRuns ends locked runs as lost. The Python scheduler's trigger then retries their tasks as after a
-- failure.
-- name: LoseRuns :execrows
update task_run set status = 'lost', ended = @now::timestamptz where id = any(@ids::bigint[]);

-- NoteSending records that a runner of ours runs. If two minutes pass without a call, and another scheduler
-- has sent runs since, the time of sending restarts at this call.
-- name: NoteSending :exec
insert into scheduler_go.sending as s (with_priority, since, seen, last_run)
select @with_priority::boolean, clock_timestamp(), clock_timestamp(), coalesce(max(id), 0) from task_run
on conflict (with_priority) do update set seen = excluded.seen, last_run = excluded.last_run,
  since = case when s.seen < excluded.seen - interval '2 minutes' and exists (
      select from task_run r join task t on t.id = r.task
      where r.id > s.last_run and r.scheduled > s.seen + interval '2 minutes' and (t.priority is not null) = s.with_priority)
    then excluded.since else s.since end;

-- SendingSince returns the moments from which only runners of ours send.
-- name: SendingSince :many
select with_priority, since from scheduler_go.sending;
