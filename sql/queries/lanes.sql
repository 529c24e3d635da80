-- Lanes: the lines of work, what is sent of them, and what is remembered.

-- TakeForLanes takes the messages that this transaction has written to the outbox
-- for a queue, with what is known of their work.
-- name: TakeForLanes :many
with taken as (
  delete from scheduler_go.outbox o
  where o.queue = @queue and o.xmin = pg_current_xact_id()::xid
  returning o.id, o.task_id, o.task_name, o.args, o.kwargs, o.urgent,
            coalesce(o.kwargs ->> 'lister_name', '')::text as lister, coalesce(o.kwargs ->> 'url', '')::text as url,
            hashtextextended(concat_ws(' ', @task_type::text, coalesce(o.kwargs ->> 'url', o.args::text || o.kwargs::text)), 0) as memory
)
select d.task_id, d.task_name, d.args, d.kwargs, d.urgent, d.lister, d.url, d.memory,
       (s.last_snapshot is null)::boolean as unseen,
       -- A difference of far dates may be more than an interval holds.
       coalesce(case when isfinite(l.last_update) and isfinite(s.last_visit)
         then extract(epoch from l.last_update) - extract(epoch from s.last_visit) end, 0)::double precision as behind,
       m.seconds, m.before, m.at_least, m.behind as behind_then,
       coalesce(before.status in ('failed', 'permfailed', 'lost'), false)::boolean as tried
from taken d
left join origin_visit_stats s on s.url = d.url and s.visit_type = @visit_type::text
left join lateral (
  select max(lo.last_update) as last_update from listed_origins lo
  where lo.url = d.url and lo.visit_type = @visit_type::text and s.last_visit is not null
) l on true
left join scheduler_go.lane_memory m on m.memory = d.memory
left join public.task_run r on r.backend_id = d.task_id::text
left join lateral (
  -- Of few rows: an order by id would have the planner walk the whole table.
  select p.status from public.task_run p where p.task = r.task and p.id <> r.id order by p.scheduled desc limit 1
) before on true
order by d.id;

-- AddLaneWork puts work into lines, or notes it as sent.
-- name: AddLaneWork :copyfrom
insert into scheduler_go.lane_work (task_id, root_id, line, lane, since, claimed, task_name, args, kwargs, urgent, queue,
  memory, lister, first, behind, visit_type, url, below, sent, lane_name, soft_limit, hard_limit, lanes_left)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23);

-- LaneLines counts what waits in the lanes of a line.
-- name: LaneLines :many
select lane, count(*) filter (where timed_out > 0) as timed_out, count(*) filter (where timed_out = 0) as waiting
from scheduler_go.lane_work
where line = @line and not sent
group by lane;

-- ShortenLines moves what waits in lanes that are no more to the last one.
-- name: ShortenLines :exec
update scheduler_go.lane_work set lane = @last_lane
where line = @line and lane > @last_lane and not sent;

-- SendLaneWork sends the first of a line into the queue of a lane.
-- name: SendLaneWork :exec
with next as (
  select n.task_id, n.since as waited from scheduler_go.lane_work n
  where n.line = @line and n.lane = @from_lane and not n.sent
  order by (n.timed_out = 0), n.since, n.place
  limit @count
  for no key update -- which passes by what the journal client keeps from changing
), going as (
  update scheduler_go.lane_work w
  set sent = true, lane = @to_lane, since = @now, queue = @queue, lane_name = @lane_name::text,
      soft_limit = @soft_limit::double precision, hard_limit = @hard_limit::double precision, lanes_left = @lanes_left,
      below = case when w.lane = @to_lane then w.below end
  from next where w.task_id = next.task_id
  returning w.queue, w.task_id, w.root_id, w.task_name, w.args, w.kwargs, w.urgent, w.hard_limit, w.soft_limit,
            w.timed_out, w.place, next.waited
)
insert into scheduler_go.outbox (queue, task_id, root_id, task_name, args, kwargs, urgent, time_limit, soft_time_limit)
select queue, task_id, case when timed_out > 0 then root_id end, task_name, args, kwargs, urgent, hard_limit, soft_limit
from going order by (timed_out = 0), waited, place;

-- SendWithoutLanes sends the first of a line that has no lanes any more to where
-- it would have gone without.
-- name: SendWithoutLanes :execrows
with next as (
  select task_id from scheduler_go.lane_work n
  where n.line = @line and not n.sent
  order by (n.timed_out = 0), n.since, n.place
  limit @count
), locked as (
  select task_id from scheduler_go.lane_work
  where task_id in (select task_id from next)
  order by task_id
  for update
), gone as (
  delete from scheduler_go.lane_work w
  using locked where w.task_id = locked.task_id and not w.sent
  returning w.*
)
insert into scheduler_go.outbox (queue, task_id, root_id, task_name, args, kwargs, urgent)
select @queue, task_id, case when timed_out > 0 then root_id end, task_name, args, kwargs, urgent
from gone order by (timed_out = 0), place;

-- WaitingLines lists the lines in which work waits.
-- name: WaitingLines :many
with recursive lines as (
  (select line from scheduler_go.lane_work where not sent order by line limit 1)
  union all
  select (select w.line from scheduler_go.lane_work w where not w.sent and w.line > lines.line order by w.line limit 1)
  from lines where line is not null
)
select line::text from lines where line is not null;

-- LaneSketches is how long work of some listers took, and all of a type, by now.
-- name: LaneSketches :many
select lister, first, bucket,
       (weight * power(2, least(0, extract(epoch from as_of - @now::timestamptz)::double precision / @half_life::double precision)))::double precision as weight
from scheduler_go.lane_sketches
where line = @line and lister = any(@listers::text[]);

-- LockLaneWork locks what is sent of some Celery tasks, in an order that all
-- listeners keep.
-- name: LockLaneWork :many
select * from scheduler_go.lane_work
where task_id = any(@task_ids::uuid[]) and sent
order by task_id
for update;

-- AddLaneEnded keeps what is needed to learn how long ended work took.
-- name: AddLaneEnded :copyfrom
insert into scheduler_go.lane_ended (task_id, line, lane_name, memory, lister, first, behind, below, claimed, heard)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- LockLaneEnded locks ended work of some Celery tasks, in an order that all
-- listeners keep.
-- name: LockLaneEnded :many
select task_id, line, lane_name, memory, lister, first, behind, below, claimed, heard
from scheduler_go.lane_ended
where task_id = any(@task_ids::uuid[])
order by task_id
for update;

-- WaitOfLaneEnded notes that the wait of ended work was recorded.
-- name: WaitOfLaneEnded :exec
update scheduler_go.lane_ended set claimed = null where task_id = any(@task_ids::uuid[]);

-- DropLaneEnded forgets ended work of which all is known.
-- name: DropLaneEnded :exec
delete from scheduler_go.lane_ended where task_id = any(@task_ids::uuid[]);

-- StartLaneWork notes when work began; Celery begins it anew when it retries it.
-- name: StartLaneWork :exec
update scheduler_go.lane_work w
set started = o.started
from (select unnest(@task_ids::uuid[]) as task_id, unnest(@started::double precision[]) as started) o
where w.task_id = o.task_id;

-- EndLaneWork forgets work that has ended.
-- name: EndLaneWork :exec
delete from scheduler_go.lane_work where task_id = any(@task_ids::uuid[]);

-- MoveLaneWork puts work whose time is over into the line of the next lane.
-- name: MoveLaneWork :exec
update scheduler_go.lane_work w
set task_id = o.new_id, lane = lane + 1, sent = false, timed_out = timed_out + 1, since = o.heard,
    started = null, below = null
from (select unnest(@task_ids::uuid[]) as task_id, unnest(@new_ids::uuid[]) as new_id, unnest(@heard::timestamptz[]) as heard) o
where w.task_id = o.task_id;

-- RecordOvers notes when the time of visits was over.
-- name: RecordOvers :exec
insert into scheduler_go.lane_overs as l (url, visit_type, claimed, over, recorded)
select o.url, o.visit_type, min(o.claimed), max(o.over), max(o.heard)
from (select unnest(@urls::text[]) as url, unnest(@visit_types::text[]) as visit_type, unnest(@claimed::timestamptz[]) as claimed,
             unnest(@over::double precision[]) as over, unnest(@heard::timestamptz[]) as heard) o
group by o.url, o.visit_type
order by o.url, o.visit_type
on conflict (url, visit_type) do update
set claimed = case when l.over >= extract(epoch from excluded.claimed) then least(l.claimed, excluded.claimed) else excluded.claimed end,
    over = greatest(l.over, excluded.over), recorded = excluded.recorded;

-- MoveInFlight has what is underway go on under a new id.
-- name: MoveInFlight :exec
update scheduler_go.in_flight f
set task_id = o.new_id, started = null
from (select unnest(@task_ids::uuid[]) as task_id, unnest(@new_ids::uuid[]) as new_id) o
where f.task_id = o.task_id;

-- MoveRuns has open runs go on under a new id of Celery's. It must not touch
-- status: the trigger would move their tasks on.
-- name: MoveRuns :exec
update public.task_run r
set backend_id = o.new_id::text,
    metadata = jsonb_set(coalesce(r.metadata, '{}'), '{timed_out}',
      coalesce(r.metadata -> 'timed_out', '[]') || to_jsonb(o.lane_name))
from (select unnest(@runs::bigint[]) as id, unnest(@new_ids::uuid[]) as new_id, unnest(@lane_names::text[]) as lane_name) o
where r.id = o.id;

-- ForgetHeldVisits forgets failed visits that were time-outs, and their origins
-- visited again.
-- name: ForgetHeldVisits :exec
delete from scheduler_go.held_visits where task_id = any(@task_ids::uuid[]);

-- RememberWork keeps how long work took.
-- name: RememberWork :exec
insert into scheduler_go.lane_memory as m (memory, seconds, before, at_least, behind, recorded)
select o.memory, o.seconds, 0, o.at_least, o.behind, o.recorded
from (select unnest(@memories::bigint[]) as memory, unnest(@seconds::real[]) as seconds, unnest(@at_least::boolean[]) as at_least,
             unnest(@behind::real[]) as behind, unnest(@recorded::timestamptz[]) as recorded) o
order by o.memory
on conflict (memory) do update
set seconds = excluded.seconds, before = case when m.at_least then 0 else m.seconds end,
    at_least = excluded.at_least, behind = excluded.behind, recorded = excluded.recorded;

-- CountWork adds to sketches.
-- name: CountWork :exec
insert into scheduler_go.lane_sketches as s (line, lister, first, bucket, weight, as_of)
select o.line, o.lister, o.first, o.bucket, o.weight, @now::timestamptz
from (select unnest(@lines::text[]) as line, unnest(@listers::text[]) as lister, unnest(@firsts::boolean[]) as first,
             unnest(@buckets::smallint[]) as bucket, unnest(@weights::double precision[]) as weight) o
order by o.line, o.lister, o.first, o.bucket
on conflict (line, lister, first, bucket) do update
set weight = excluded.weight
      + s.weight * power(2, least(0, extract(epoch from s.as_of - excluded.as_of)::double precision / @half_life::double precision)),
    as_of = greatest(s.as_of, excluded.as_of);

-- RecordLanes adds to the history.
-- name: RecordLanes :exec
insert into scheduler_go.lane_history as h (line, lane, minute, what, bucket, pieces)
select o.line, o.lane, date_trunc('minute', o.heard), o.what, o.bucket, o.pieces
from (select unnest(@lines::text[]) as line, unnest(@lanes::text[]) as lane, unnest(@heard::timestamptz[]) as heard,
             unnest(@whats::text[]) as what, unnest(@buckets::smallint[]) as bucket, unnest(@pieces::bigint[]) as pieces) o
order by 1, 2, 3, 4, 5
on conflict (line, lane, minute, what, bucket) do update set pieces = h.pieces + excluded.pieces;

-- LaneHistory sums the history since a moment.
-- name: LaneHistory :many
select lane, what, bucket, sum(pieces)::bigint as pieces
from scheduler_go.lane_history
where line = @line and minute >= @since
group by lane, what, bucket;

-- LaneUnderway counts the work of a line by lane.
-- name: LaneUnderway :many
select lane, count(*) filter (where not sent and timed_out > 0) as timed_out,
       count(*) filter (where not sent and timed_out = 0) as waiting,
       count(*) filter (where sent) as sent, count(started) as running
from scheduler_go.lane_work
where line = @line
group by lane;

-- LanesUnderway lists the lanes, by their queues, to which work was sent that has not
-- ended: those of the configuration, and those that it had before.
-- name: LanesUnderway :many
select distinct line, lane_name::text as lane_name, queue
from scheduler_go.lane_work
where sent
order by 1, 2, 3;

-- GiveUpLaneWork forgets work whose outcome will not be heard any more: what began
-- and is long past its limit, what is very old, and, of what is not known to have
-- begun, the oldest beyond what can still be in the queue.
-- name: GiveUpLaneWork :execrows
with sent as (
  select w.task_id, row_number() over (partition by w.started is null order by w.since desc, w.task_id) as place
  from scheduler_go.lane_work w
  where w.line = @line and w.lane_name = @lane_name::text and w.queue = @queue and w.sent
), unheard as (
  select w.task_id from scheduler_go.lane_work w join sent s on s.task_id = w.task_id
  where w.since < @lost_before::timestamptz
     or w.started is null and s.place > @waiting::bigint and w.since < @unheard_before::timestamptz
     or w.started + w.hard_limit < extract(epoch from @unheard_before::timestamptz)::double precision
  order by w.task_id
  for update of w
)
delete from scheduler_go.lane_work w
using unheard u where w.task_id = u.task_id and w.sent;

-- ForgetLanes deletes what is too old to matter.
-- name: ForgetLanes :exec
with history as (
  delete from scheduler_go.lane_history h where h.minute < @history_before
), ended as (
  delete from scheduler_go.lane_ended e where e.heard < @ended_before
), overs as (
  delete from scheduler_go.lane_overs o where o.recorded < @overs_before
)
delete from scheduler_go.lane_memory m where m.recorded < @memory_before;

-- LanedVisits finds the work of some origins that was sent and may go on in another
-- lane, and keeps it from doing so.
-- name: LanedVisits :many
select w.url::text as url, w.visit_type::text as visit_type, w.task_id, w.since
from scheduler_go.lane_work w
join (select unnest(@urls::text[]) as url, unnest(@visit_types::text[]) as visit_type) k
  on w.url = k.url and w.visit_type = k.visit_type
where w.sent and w.lanes_left > 0
order by w.task_id
for key share of w;

-- VisitOvers finds when the time of some origins' visits was over. LanedVisits comes
-- first: what moves meanwhile is in the one or in the other.
-- name: VisitOvers :many
select o.url, o.visit_type, o.claimed, o.over
from scheduler_go.lane_overs o
join (select unnest(@urls::text[]) as url, unnest(@visit_types::text[]) as visit_type) k
  on o.url = k.url and o.visit_type = k.visit_type;

-- HoldVisits keeps failed visits back.
-- name: HoldVisits :exec
insert into scheduler_go.held_visits (task_id, url, visit_type, date)
select unnest(@task_ids::uuid[]), unnest(@urls::text[]), unnest(@visit_types::text[]), unnest(@dates::timestamptz[])
on conflict do nothing;

-- ReleasedVisits lists failed visits whose try has ended, and not by a time-out.
-- name: ReleasedVisits :many
select h.url, h.visit_type, h.date from scheduler_go.held_visits h
where not exists (select from scheduler_go.lane_work w where w.task_id = h.task_id)
order by h.date
limit @max_visits;

-- DropHeldVisits forgets failed visits that were counted.
-- name: DropHeldVisits :exec
delete from scheduler_go.held_visits h
using (select unnest(@urls::text[]) as url, unnest(@visit_types::text[]) as visit_type, unnest(@dates::timestamptz[]) as date) k
where h.url = k.url and h.visit_type = k.visit_type and h.date = k.date;
