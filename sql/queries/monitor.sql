-- Figures for monitoring, taken periodically.

-- OutgoingByQueue counts the outgoing messages of each queue, with the oldest and the number
-- that the broker refused.
-- name: OutgoingByQueue :many
select queue, count(*) as messages, min(coalesce(since, claimed))::timestamptz as oldest, count(last_error) as refused
from scheduler_go.work
where state = 'outgoing'
group by queue;

-- CountRejected counts the events and journal records that were set aside.
-- name: CountRejected :one
select (select count(*) from scheduler_go.rejected_events) as events, (select count(*) from scheduler_go.rejected_records) as records;

-- OldestReady returns since when the longest ready task waits, by type and priority, of the
-- ten thousand longest ready of each type.
-- name: OldestReady :many
select tt.type, coalesce(ready.priority::text, '')::text as priority, greatest(min(ready.next_run), 'epoch')::timestamptz as oldest, count(*) as tasks
from task_type tt
cross join lateral (
  select t.priority, t.next_run from task t
  where t.type = tt.type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
  order by t.next_run
  limit 10000
) ready
group by tt.type, ready.priority;

-- OriginCounts returns the peer's counts of origins (update-metrics), by lister and visit
-- type.
-- name: OriginCounts :many
select l.name as lister, m.visit_type,
       sum(m.origins_known)::bigint as known, sum(m.origins_enabled)::bigint as enabled,
       sum(m.origins_never_visited)::bigint as never_visited, sum(m.origins_with_pending_changes)::bigint as with_pending_changes
from scheduler_metrics m
join listers l on l.id = m.lister_id
group by l.name, m.visit_type;

-- PoolCounts counts the origins of each pool. It reads all candidates.
-- name: PoolCounts :many
select visit_type,
       count(*) filter (where last_update is null) as without_update,
       count(*) filter (where last_update is not null and not loaded) as never_loaded,
       count(lag) as lagging,
       count(*) filter (where last_update is not null and loaded and lag is null) as others
from scheduler_go.candidates
group by visit_type;

-- ActiveOrigins returns the counts of CountActiveOrigins, by lister.
-- name: ActiveOrigins :many
select l.name as lister, sum(s.active)::bigint as origins
from scheduler_go.listings s
join listers l on l.id = s.lister_id
where s.active is not null
group by l.name;

-- CountActiveOrigins counts the origins that changed between a lister's last two
-- listings, once for each listing that ended. For that it reads all candidates, if
-- they are there and few changes are missing from them; otherwise it is left to the
-- next time.
-- name: CountActiveOrigins :exec
update scheduler_go.listings l
set active = counts.origins, counted = counts.finished
from (
  select s.lister_id, s.finished, count(c.url) as origins
  from scheduler_go.listings s
  left join scheduler_go.candidates c on c.lister_id = s.lister_id and c.last_update between s.previous and s.finished
  where s.previous is not null and s.counted is distinct from s.finished
    and exists (select from scheduler_go.candidate_build where phase = 'ready')
    and not exists (select from scheduler_go.candidate_changes offset @most_changes::bigint)
  group by s.lister_id, s.finished
) counts
where l.lister_id = counts.lister_id;

-- UnansweredRuns counts the runs that were scheduled or started before a moment and
-- have not ended. It reads all of task_run.
-- name: UnansweredRuns :one
select count(*) from task_run
where status in ('scheduled', 'started') and coalesce(started, scheduled) < @before;

-- TryLockMonitor takes the advisory lock of heavy figures if it is free, and reports whether it was.
-- name: TryLockMonitor :one
select pg_try_advisory_xact_lock(hashtextextended('swh-scheduler monitor', 0));
