-- Shares: what the groups of a queue have underway and what they used.

-- RecordInFlight notes visits that were claimed for groups.
-- name: RecordInFlight :copyfrom
insert into scheduler_go.in_flight (task_id, queue, share_group, cost, claimed)
values ($1, $2, $3, $4, $5);

-- LockInFlight locks what is underway of some Celery tasks, in an order that all
-- listeners keep.
-- name: LockInFlight :many
select task_id, queue, share_group, cost, started
from scheduler_go.in_flight
where task_id = any(@task_ids::uuid[])
order by task_id
for update;

-- StartInFlight notes when work began; Celery begins it anew when it retries it.
-- name: StartInFlight :exec
update scheduler_go.in_flight f
set started = o.started
from (select unnest(@task_ids::uuid[]) as task_id, unnest(@started::double precision[]) as started) o
where f.task_id = o.task_id;

-- EndInFlight forgets work that has ended.
-- name: EndInFlight :exec
delete from scheduler_go.in_flight where task_id = any(@task_ids::uuid[]);

-- AddShareEnded keeps what ended work was charged for want of knowing better.
-- name: AddShareEnded :copyfrom
insert into scheduler_go.share_ended (task_id, queue, share_group, charged, heard)
values ($1, $2, $3, $4, $5);

-- TakeShareEnded takes what ended work of some Celery tasks was charged.
-- name: TakeShareEnded :many
delete from scheduler_go.share_ended
where task_id = any(@task_ids::uuid[])
returning task_id, queue, share_group, charged;

-- ChargeShares has ended work counted by the next claim.
-- name: ChargeShares :exec
insert into scheduler_go.share_charges (queue, share_group, heard, seconds, pieces)
select unnest(@queues::text[]), unnest(@groups::text[]), unnest(@heard::timestamptz[]),
       unnest(@seconds::double precision[]), unnest(@pieces::integer[]);

-- TakeCharges takes what listeners charged to the groups of a queue, and keeps it
-- in the history.
-- name: TakeCharges :many
with taken as (
  delete from scheduler_go.share_charges c where c.queue = @queue
  returning c.share_group, c.heard, c.seconds, c.pieces
), kept as (
  insert into scheduler_go.share_history as h (queue, share_group, minute, seconds, pieces)
  select @queue, share_group, date_trunc('minute', heard), sum(seconds), sum(pieces)
  from taken group by share_group, date_trunc('minute', heard)
  on conflict (queue, share_group, minute) do update
  set seconds = h.seconds + excluded.seconds, pieces = h.pieces + excluded.pieces
)
select share_group, heard, seconds, pieces from taken;

-- ForgetShareHistory deletes minutes long ago.
-- name: ForgetShareHistory :exec
delete from scheduler_go.share_history where queue = @queue and minute < @before;

-- GroupsOfQueue lists what is known of the groups of a queue.
-- name: GroupsOfQueue :many
select share_group, used, pieces, forgone, as_of, busy from scheduler_go.shares where queue = @queue;

-- InFlightByGroup counts what is underway in a queue. A piece of work counts with
-- what it was expected to be, or with the time since it began if that is more.
-- name: InFlightByGroup :many
select share_group, count(*) as pieces, count(started) as started,
       sum(greatest(cost, extract(epoch from @now::timestamptz)::double precision - started))::double precision as load
from scheduler_go.in_flight
where queue = @queue
group by share_group;

-- ForgetShareEnded forgets ended work of which nothing more will be heard.
-- name: ForgetShareEnded :exec
delete from scheduler_go.share_ended where heard < @before;

-- GiveUpInFlight gives up work whose outcome will not be heard any more, and
-- charges what it was expected to be: all that was claimed before lost_before,
-- and, of what was claimed before unheard_before and is not known to have begun,
-- the oldest beyond what can still be waiting.
-- name: GiveUpInFlight :exec
with unstarted as (
  select f.task_id as id, f.claimed as since, row_number() over (order by f.claimed desc, f.task_id) as place
  from scheduler_go.in_flight f
  where f.queue = @queue and f.started is null
), unheard as (
  select id from unstarted where place > @waiting::bigint and since < @unheard_before::timestamptz
), gone as (
  delete from scheduler_go.in_flight f
  where f.queue = @queue and (f.claimed < @lost_before or f.task_id in (select id from unheard))
  returning f.share_group, f.cost
)
insert into scheduler_go.share_charges (queue, share_group, heard, seconds, pieces)
select @queue, share_group, @now::timestamptz, sum(cost), count(*) from gone group by share_group;

-- SaveShares writes what is known of the groups of a queue.
-- name: SaveShares :exec
insert into scheduler_go.shares (queue, share_group, used, pieces, forgone, as_of, busy)
select @queue, unnest(@groups::text[]), unnest(@used::double precision[]), unnest(@pieces::double precision[]),
       unnest(@forgone::double precision[]), @as_of, unnest(@busy::boolean[])
on conflict (queue, share_group) do update
set used = excluded.used, pieces = excluded.pieces, forgone = excluded.forgone,
    as_of = excluded.as_of, busy = excluded.busy;

-- ForgetShares deletes groups that have nothing left to be remembered for.
-- name: ForgetShares :exec
delete from scheduler_go.shares s
where s.queue = @queue and s.share_group = any(@groups::text[])
  and not exists (select from scheduler_go.in_flight f where f.queue = s.queue and f.share_group = s.share_group);

-- ShareHistory sums the work that ended since a moment, by group.
-- name: ShareHistory :many
select share_group, sum(seconds)::double precision as seconds, sum(pieces)::bigint as pieces
from scheduler_go.share_history
where queue = @queue and minute >= @since
group by share_group;

-- GroupedListers lists the listers with candidates of a visit type, by as many
-- steps along the index.
-- name: GroupedListers :many
with recursive found as (
  (select lister_id from scheduler_go.candidates c
   where c.visit_type = @visit_type and not c.parked order by c.lister_id limit 1)
  union all
  select (select c.lister_id from scheduler_go.candidates c
          where c.visit_type = @visit_type and not c.parked and c.lister_id > found.lister_id order by c.lister_id limit 1)
  from found where found.lister_id is not null
)
select l.id, l.name, l.instance_name from found join listers l on l.id = found.lister_id
-- While candidates are built, any lister may have some.
union
select l.id, l.name, l.instance_name from listers l
where exists (select from scheduler_go.candidate_build where phase <> 'ready');

-- WaitingVisits counts the origins of some listers that candidates have to visit,
-- up to a bound.
-- name: WaitingVisits :one
select count(*) from (
  select from scheduler_go.candidates c
  where c.visit_type = @visit_type and c.lister_id = any(@listers::uuid[]) and not c.parked and c.due < @now
  limit @bound::bigint
) waiting;
