-- The journal client's statements.

-- name: LockVisitStats :many
-- Returns the stats of the origins, locked in the order of their keys. Two members of the consumer group
-- with the same origins then wait for each other and never deadlock. A date that is not recorded, or infinite, is that of the year 1.
select s.url, s.visit_type, coalesce(case when isfinite(s.last_successful) then s.last_successful end, '0001-01-01Z')::timestamptz as last_successful,
       coalesce(case when isfinite(s.last_visit) then s.last_visit end, '0001-01-01Z')::timestamptz as last_visit,
       coalesce(s.last_visit_status::text, '')::text as last_visit_status,
       s.last_snapshot, s.next_visit_queue_position, s.next_position_offset, s.successive_visits
from origin_visit_stats s
join (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type) k
  on s.url = k.url and s.visit_type = k.visit_type
order by s.url, s.visit_type
for no key update of s;

-- name: VisitQueuePositions :many
select visit_type, position from visit_scheduler_queue_position;

-- VisitSurroundings returns the queue positions, whether any visit is or was on lanes or may be
-- refused, and whether any visit type has the policy freshness. Without positions it returns one row without a visit type.
-- name: VisitSurroundings :many
select p.visit_type, p.position, l.lanes, l.freshness
from (select (exists (select from scheduler_go.work where url is not null) or exists (select from scheduler_go.lane_timeouts) or exists (select from scheduler_go.refused_visits))::boolean as lanes,
             exists (select from scheduler_go.freshness_control)::boolean as freshness) l
left join visit_scheduler_queue_position p on true;

-- name: VisitFailures :many
-- The locks of LockVisitStats protect the rows.
select f.url, f.visit_type, f.last_failure, f.in_a_row
from scheduler_go.visit_failures f
join (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type) k
  on f.url = k.url and f.visit_type = k.visit_type;

-- name: RecordVisitFailures :exec
insert into scheduler_go.visit_failures as f (url, visit_type, last_failure, in_a_row)
select unnest(@url::text[]), unnest(@visit_type::text[]), unnest(@date::timestamptz[]), unnest(@in_a_row::integer[])
on conflict (url, visit_type) do update set last_failure = excluded.last_failure, in_a_row = excluded.in_a_row;

-- OpenCandidates takes the advisory lock of candidates if it is free and fewer changes than a bound are pending, and
-- reports whether it took it. With more pending, a drain needs the lock. The statement after the lock needs a snapshot of its
-- own, which it has only with read committed. Until the transaction ends, the candidates' trigger on
-- origin_visit_stats is off: WriteVisitStats replaces it.
-- name: OpenCandidates :one
with noted as materialized (
  select set_config('scheduler_go.noted', 'on', true) as setting
)
select (case
  when (select setting from noted) = 'on' and current_setting('transaction_isolation') = 'read committed'
    and coalesce(sum(scheduler_go.pending_changes(t, @bound::bigint)), 0) < @bound
  then pg_try_advisory_xact_lock(hashtextextended('swh-scheduler candidates', 0))
  else false end)::boolean as open
from scheduler_go.changed_visit_types() t;

-- WriteVisitStats updates locked rows, inserts the fresh ones in the order of their keys, and returns the number of written
-- rows. A fresh row that another process has inserted meanwhile is left out and missing in the count. It doesn't write
-- last_scheduled, which the daemons that schedule visits set at any time. An origin without a successful visit keeps
-- null for its date and its snapshot.
--
-- The caller holds the lock of candidates: it moves the candidates of its origins as a drain would. What listers write
-- stays as the candidates have it: a change of that is pending. During a build, it records the origins for a drain.
-- name: WriteVisitStats :one
with v as materialized (
  select unnest(@url::text[]) as url,
         unnest(@visit_type::text[]) as visit_type,
         unnest(@fresh::boolean[]) as fresh,
         unnest(@succeeded::boolean[]) as succeeded,
         unnest(@last_successful::timestamptz[]) as last_successful,
         unnest(@last_visit::timestamptz[]) as last_visit,
         unnest(@last_visit_status::text[])::last_visit_status as last_visit_status,
         unnest(@last_snapshot::bytea[]) as last_snapshot,
         unnest(@next_visit_queue_position::bigint[]) as next_visit_queue_position,
         unnest(@next_position_offset::integer[]) as next_position_offset,
         unnest(@successive_visits::integer[]) as successive_visits
), updated as (
  update origin_visit_stats s
  set last_successful = case when v.succeeded then v.last_successful else s.last_successful end,
      last_visit = v.last_visit,
      last_visit_status = v.last_visit_status,
      last_snapshot = coalesce(v.last_snapshot, s.last_snapshot),
      next_visit_queue_position = v.next_visit_queue_position,
      next_position_offset = v.next_position_offset,
      successive_visits = v.successive_visits
  from v
  where not v.fresh and s.url = v.url and s.visit_type = v.visit_type
  returning s.*
), inserted as (
  insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status,
    last_snapshot, next_visit_queue_position, next_position_offset, successive_visits)
  select v.url, v.visit_type, case when v.succeeded then v.last_successful end, v.last_visit, v.last_visit_status,
         v.last_snapshot, v.next_visit_queue_position, v.next_position_offset, v.successive_visits
  from v
  where v.fresh
  order by v.url, v.visit_type
  on conflict (url, visit_type) do nothing
  returning *
), written as (
  select * from updated union all select * from inserted
), built as materialized (
  select by_freshness from scheduler_go.candidate_build where phase = 'ready'
), moved as (
  update scheduler_go.candidates c
  set due = due.at, parked = due.at >= now(), last_scheduled = w.last_scheduled,
      lag = case when w.last_snapshot is not null then scheduler_go.lag_of(c.last_update, w.last_successful) end,
      queue_position = w.next_visit_queue_position, loaded = w.last_snapshot is not null, successful = coalesce(w.last_visit_status = 'successful', false),
      moment = case when (select by_freshness from built)
      then scheduler_go.moment_of(c.visit_type, c.url, c.lister_id, c.first_seen, c.last_update, w.last_snapshot is not null, w.last_successful) end
  from written w
  cross join lateral (select scheduler_go.due_at(w.last_scheduled, w.last_visit, w.last_visit_status) as at) due
  where c.url = w.url and c.visit_type = w.visit_type and exists (select from built)
), noted as (
  insert into scheduler_go.candidate_changes (visit_type, url, listed)
  select w.visit_type, w.url, false from written w where not exists (select from built)
)
select count(*) from written;

-- RecordVisitStats is WriteVisitStats without the lock of candidates: it records the origins for a drain. It doesn't write
-- candidates, as the table's lock would wait for an index that a build creates.
-- name: RecordVisitStats :one
with v as materialized (
  select unnest(@url::text[]) as url,
         unnest(@visit_type::text[]) as visit_type,
         unnest(@fresh::boolean[]) as fresh,
         unnest(@succeeded::boolean[]) as succeeded,
         unnest(@last_successful::timestamptz[]) as last_successful,
         unnest(@last_visit::timestamptz[]) as last_visit,
         unnest(@last_visit_status::text[])::last_visit_status as last_visit_status,
         unnest(@last_snapshot::bytea[]) as last_snapshot,
         unnest(@next_visit_queue_position::bigint[]) as next_visit_queue_position,
         unnest(@next_position_offset::integer[]) as next_position_offset,
         unnest(@successive_visits::integer[]) as successive_visits
), updated as (
  update origin_visit_stats s
  set last_successful = case when v.succeeded then v.last_successful else s.last_successful end,
      last_visit = v.last_visit,
      last_visit_status = v.last_visit_status,
      last_snapshot = coalesce(v.last_snapshot, s.last_snapshot),
      next_visit_queue_position = v.next_visit_queue_position,
      next_position_offset = v.next_position_offset,
      successive_visits = v.successive_visits
  from v
  where not v.fresh and s.url = v.url and s.visit_type = v.visit_type
  returning s.*
), inserted as (
  insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status,
    last_snapshot, next_visit_queue_position, next_position_offset, successive_visits)
  select v.url, v.visit_type, case when v.succeeded then v.last_successful end, v.last_visit, v.last_visit_status,
         v.last_snapshot, v.next_visit_queue_position, v.next_position_offset, v.successive_visits
  from v
  where v.fresh
  order by v.url, v.visit_type
  on conflict (url, visit_type) do nothing
  returning *
), written as (
  select * from updated union all select * from inserted
), noted as (
  insert into scheduler_go.candidate_changes (visit_type, url, listed)
  select w.visit_type, w.url, false from written w
)
select count(*) from written;

-- name: DisableListedOrigins :exec
-- Disables origins until a lister lists them again: of all listers and visit types, as the Python scheduler
-- does.
update listed_origins o
set enabled = false
from (select lister_id, url, visit_type
      from listed_origins
      where url = any(@urls::text[]) and enabled
      order by lister_id, url, visit_type
      for no key update) found
where o.lister_id = found.lister_id and o.url = found.url and o.visit_type = found.visit_type;

-- name: InsertRejectedRecords :exec
-- A record that comes again, because its offset was not committed, changes nothing.
insert into scheduler_go.rejected_records (topic, partition, record_offset, kind, detail)
select unnest(@topic::text[]), unnest(@partition::integer[]), unnest(sqlc.arg('offset')::bigint[]),
       unnest(@kind::text[]), unnest(@detail::text[])
on conflict (topic, partition, record_offset) do nothing;

-- ForgetOldRejectedRecords deletes records that were set aside before a moment.
-- name: ForgetOldRejectedRecords :execrows
delete from scheduler_go.rejected_records where rejected_at < @before;

-- name: TrimRejectedRecords :exec
-- Deletes all but the newest records.
delete from scheduler_go.rejected_records
where id <= (select max(id) from scheduler_go.rejected_records) - @keep::bigint;

-- RecordVisitTurns records visits whose outcome differs from the one before.
-- name: RecordVisitTurns :exec
insert into scheduler_go.visit_turns (origin, at, status, before, visits, last_before)
select hashtextextended(o.visit_type || ' ' || o.url, 0), o.at, o.status, o.before, o.visits, o.last_before
from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type, unnest(@at::timestamptz[]) as at, unnest(@status::text[]) as status,
             unnest(@before::text[]) as before, unnest(@visits::integer[]) as visits, unnest(@last_before::timestamptz[]) as last_before) o;

-- VisitTurns returns the last turns of an origin, the newest first.
-- name: VisitTurns :many
select * from scheduler_go.visit_turns where origin = hashtextextended(@visit_type::text || ' ' || @url::text, 0) order by id desc limit @most;

-- VisitsInARow returns how many of an origin's last visits have the outcome of the last one. An origin
-- without visits has no row.
-- name: VisitsInARow :many
select visit_type, coalesce(last_visit_status::text, '')::text as status, successive_visits, last_visit::timestamptz as last_visit
from origin_visit_stats where url = @url and last_visit is not null and isfinite(last_visit) order by visit_type limit @most;

-- ForgetVisitTurns deletes old turns, and those beyond a bound.
-- name: ForgetVisitTurns :exec
delete from scheduler_go.visit_turns t
using (select coalesce((select o.id from scheduler_go.visit_turns o where o.at >= now() - interval '400 days' order by o.id limit 1), 9223372036854775807) as young,
              coalesce((select max(n.id) from scheduler_go.visit_turns n), 0) - @most::bigint as below) b
where t.id < b.young or t.id <= b.below;
