-- Figures for monitoring, read periodically.

-- OutgoingByQueue counts the outgoing messages by queue. It returns the oldest one's date and the number
-- that the broker refused.
-- name: OutgoingByQueue :many
select o.queue::text as queue, o.messages::bigint as messages, o.oldest::timestamptz as oldest, o.refused::bigint as refused
from scheduler_go.outgoing_by_queue() o;

-- CountRejected counts the events and journal records that are set aside, in all and in the last hour.
-- name: CountRejected :one
select e.events, e.new_events, r.records, r.new_records
from (select count(*) as events, count(*) filter (where received > now() - interval '1 hour') as new_events from scheduler_go.rejected_events) e,
     (select count(*) as records, count(*) filter (where rejected_at > now() - interval '1 hour') as new_records from scheduler_go.rejected_records) r;

-- OldestReady returns, by type and priority, since when the longest-waiting ready task waits. It reads the
-- ten thousand longest-waiting tasks of each type, for a range of types in their order. Of @found it reads those
-- from a date on, of the other types those from @since on; the year 1 means all. Rows are compared as in
-- ReadyTaskTypes.
-- name: OldestReady :many
select tt.type, coalesce(ready.priority::text, '')::text as priority, greatest(min(ready.next_run), 'epoch')::timestamptz as oldest, count(*) as tasks
from (select type from task_type order by type limit @types offset @first_type) tt
left join (select unnest(@found::text[]) as type, unnest(@oldest::timestamptz[]) as oldest) last on last.type = tt.type
cross join lateral (
  select coalesce(nullif(case when last.type is null then @since::timestamptz else last.oldest end, '0001-01-01Z'), '-infinity') as date offset 0
) first
cross join lateral (
  select t.priority, t.next_run from task t
  where (t.type, t.next_run) >= (tt.type, first.date) and (t.type, t.next_run) <= (tt.type, @now::timestamptz)
    and t.status = 'next_run_not_scheduled'
  order by t.type, t.next_run
  limit 10000
) ready
group by tt.type, ready.priority;

-- EndOfTaskTypes counts the task types.
-- name: EndOfTaskTypes :one
select count(*) from task_type;

-- OriginCounts returns the Python scheduler's counts of origins (update-metrics) by lister and visit type.
-- name: OriginCounts :many
select l.name as lister, m.visit_type,
       sum(m.origins_known)::bigint as known, sum(m.origins_enabled)::bigint as enabled,
       sum(m.origins_never_visited)::bigint as never_visited, sum(m.origins_with_pending_changes)::bigint as with_pending_changes
from scheduler_metrics m
join listers l on l.id = m.lister_id
group by l.name, m.visit_type;

-- MetricsAge returns, by lister, the date of its instances' oldest counts.
-- name: MetricsAge :many
select l.name as lister, min(m.counted)::timestamptz as counted
from (select lister_id, max(last_update) as counted from scheduler_metrics group by lister_id) m
join listers l on l.id = m.lister_id
where isfinite(m.counted)
group by l.name;

-- ActiveOrigins returns the counts of active origins, by lister.
-- name: ActiveOrigins :many
select l.name as lister, sum(s.active)::bigint as origins
from scheduler_go.listings s
join listers l on l.id = s.lister_id
where s.active is not null
group by l.name;

-- LedgerQueues returns, by queue, the number of outgoing messages and the date of the oldest message
-- without a known start, or the epoch. The ledger has no sent messages without groups and lanes.
-- name: LedgerQueues :many
select queue, count(*) filter (where state = 'outgoing') as outgoing,
       coalesce(min(coalesce(since, claimed)) filter (where started is null), 'epoch')::timestamptz as oldest
from scheduler_go.work
where state in ('outgoing', 'sent')
group by queue;

-- BegunByQueue counts, by queue, work with a known start and no known end. The ledger has only work of
-- groups, lanes and hosters.
-- name: BegunByQueue :many
select queue, count(*) as begun
from scheduler_go.work
where state = 'sent' and started is not null
group by queue;

-- RunningTasks counts the running tasks by type, with and without a priority.
-- name: RunningTasks :many
select r.type, (t.priority is not null)::boolean as urgent, count(*) as tasks
from scheduler_go.running r
join task t on t.id = r.task
group by 1, 2;
