-- Shares: the work underway and the usage of a queue's groups.

-- ChargeShares records charges for ended work. The next claim takes them.
-- name: ChargeShares :exec
insert into scheduler_go.share_charges (queue, share_group, heard, seconds, pieces)
select unnest(@queue::text[]), unnest(sqlc.arg('group')::text[]), unnest(@received::timestamptz[]),
       unnest(@seconds::double precision[]), unnest(@pieces::integer[]);

-- TakeCharges deletes the charges of a queue's groups, adds them to the history, and returns them.
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

-- ForgetShareHistory deletes old minutes.
-- name: ForgetShareHistory :exec
delete from scheduler_go.share_history where queue = @queue and minute < @before;

-- GroupsOfQueue lists the states of the groups of a queue.
-- name: GroupsOfQueue :many
select share_group, used, pieces, forgone as forfeited, as_of, tasks_waited, visits_waited from scheduler_go.shares where queue = @queue;

-- InFlightByGroup returns a queue's work underway by group: the number of messages, the expected cost of
-- those not begun, and for each other message its cost and the seconds since it began.
-- name: InFlightByGroup :many
select share_group::text as share_group, count(*) as pieces,
       coalesce(sum(cost) filter (where started is null), 0)::double precision as waiting,
       coalesce(array_agg(cost) filter (where started is not null), '{}')::double precision[] as costs,
       coalesce(array_agg(extract(epoch from @now::timestamptz)::double precision - scheduler_go.began(started, since, @now)) filter (where started is not null), '{}')::double precision[] as begun
from scheduler_go.work
where home = @queue and share_group is not null and state <> 'settled'
group by share_group;

-- SaveShares writes the states of the groups of a queue.
-- name: SaveShares :exec
insert into scheduler_go.shares (queue, share_group, used, pieces, forgone, as_of, busy, tasks_waited, visits_waited)
select @queue, s.share_group, s.used, s.pieces, s.forfeited, @as_of, s.tasks_waited > 0 or s.visits_waited > 0, s.tasks_waited, s.visits_waited
from (select unnest(sqlc.arg('group')::text[]) as share_group, unnest(@used::double precision[]) as used, unnest(@pieces::double precision[]) as pieces,
             unnest(@forfeited::double precision[]) as forfeited, unnest(@tasks_waited::double precision[]) as tasks_waited,
             unnest(@visits_waited::double precision[]) as visits_waited) s
on conflict (queue, share_group) do update
set used = excluded.used, pieces = excluded.pieces, forgone = excluded.forgone,
    as_of = excluded.as_of, busy = excluded.busy, tasks_waited = excluded.tasks_waited, visits_waited = excluded.visits_waited;

-- ForgetShares deletes the groups without work underway.
-- name: ForgetShares :exec
delete from scheduler_go.shares s
where s.queue = @queue and s.share_group = any(@groups::text[])
  and not exists (select from scheduler_go.work w where w.home = s.queue and w.share_group = s.share_group and w.state <> 'settled');

-- ForgetUnusedShares deletes the rows of queues without recent claims.
-- name: ForgetUnusedShares :exec
with charges as (
  delete from scheduler_go.share_charges c where c.heard < @unused_before::timestamptz
), history as (
  delete from scheduler_go.share_history h where h.minute < @history_before::timestamptz
)
delete from scheduler_go.shares s where s.as_of < @unused_before::timestamptz;

-- ShareHistory sums ended work since a moment, by group.
-- name: ShareHistory :many
select share_group, sum(seconds)::double precision as seconds, sum(pieces)::bigint as pieces
from scheduler_go.share_history
where queue = @queue and minute >= @since
group by share_group;

-- GroupedListers lists the listers with candidates of a visit type, with one index step each. During a build, when
-- candidates lack indexes, it lists all listers.
-- name: GroupedListers :many
with recursive found as (
  (select lister_id from scheduler_go.candidates c
   where exists (select from scheduler_go.candidate_build where phase = 'ready') and c.visit_type = @visit_type and not c.parked order by c.lister_id limit 1)
  union all
  select (select c.lister_id from scheduler_go.candidates c
          where c.visit_type = @visit_type and not c.parked and c.lister_id > found.lister_id order by c.lister_id limit 1)
  from found where found.lister_id is not null
)
select l.id, l.name, l.instance_name from found join listers l on l.id = found.lister_id
-- Parked candidates have no index by lister.
union
select l.id, l.name, l.instance_name from listers l
where @parked_too::boolean or exists (select from scheduler_go.candidate_build where phase <> 'ready');
