-- Lanes: backlogs, their sending, and the memory of runtimes.

-- LaneFeatures returns the inputs of lane selection: the hash of the work's key, and its memory. For
-- visits, also whether the origin has no archived visit yet, and the seconds from the last visit to the
-- last update of any lister. updated is that update in seconds since 1970; NaN makes the statement read it.
-- name: LaneFeatures :many
select k.memory,
       (s.last_snapshot is null)::boolean as first,
       -- A difference of distant dates may exceed an interval.
       coalesce(case when abs(l.updated) < 'infinity' and isfinite(s.last_visit)
         then l.updated - extract(epoch from s.last_visit)::double precision end, 0)::double precision as behind,
       (m.memory is not null)::boolean as known, coalesce(m.seconds, 0)::real as seconds, coalesce(m.before, 0)::real as before,
       coalesce(m.at_least, false)::boolean as at_least, coalesce(m.behind, 0)::real as behind_then
from (
  select o.place, o.url, o.updated, hashtextextended(o.key, 0) as memory
  from (select unnest(@keys::text[]) as key, unnest(@urls::text[]) as url, unnest(@updated::double precision[]) as updated,
               generate_subscripts(@keys::text[], 1) as place) o
) k
left join lateral (
  select v.last_snapshot, v.last_visit from origin_visit_stats v where v.url = k.url and v.visit_type = @visit_type::text offset 0
) s on true
left join lateral (
  select case when k.updated = 'nan' then (
    select extract(epoch from max(lo.last_update))::double precision from listed_origins lo
    where lo.url = k.url and lo.visit_type = @visit_type::text and s.last_visit is not null
  ) else k.updated end as updated
) l on true
left join lateral (select n.* from scheduler_go.lane_memory n where n.memory = k.memory offset 0) m on true
order by k.place;

-- Backlogs counts the backlogs of a lane set by lane.
-- name: Backlogs :many
select lane::smallint as lane, count(*) filter (where timed_out > 0) as timed_out, count(*) filter (where timed_out = 0) as waiting,
       min(since)::timestamptz as oldest
from scheduler_go.work
where lane_set = @lane_set and state = 'backlog'
group by lane;

-- ShortenLaneSet moves the backlogs of removed lanes to the last one.
-- name: ShortenLaneSet :exec
update scheduler_go.work set lane = @last_lane
where lane_set = @lane_set and lane > @last_lane and state = 'backlog';

-- SendBacklog sends the first messages of a lane's backlog to the queue of a lane. It reads look_at
-- messages. Those that entered after slowest_since and didn't time out follow the others, those with the
-- longest expected runtime first. The update finds messages by id: its condition on the state matches no
-- index.
-- name: SendBacklog :exec
with next as (
  select n.task_id, nextval('scheduler_go.work_place_seq') as place
  from (
    select f.task_id
    from (
      select b.task_id, row_number() over (order by (b.timed_out = 0), b.since, b.place) as turn,
             case when b.timed_out = 0 and b.since > @slowest_since then coalesce(b.expected, 0) else 'infinity' end as expected
      from scheduler_go.work b
      where b.lane_set = @lane_set and b.lane = @from_lane and b.state = 'backlog'
      order by (b.timed_out = 0), b.since, b.place
      limit @look_at
    ) f
    order by f.expected desc, f.turn
    limit @count
  ) n
  where pg_current_xact_id() is not null -- takes the transaction's id before the places, as raise_low_water requires
)
update scheduler_go.work w
set state = 'outgoing', place = next.place, lane = @to_lane, since = @now, queue = @queue, lane_name = @lane_name,
    soft_limit = @soft_limit::double precision, hard_limit = @hard_limit::double precision, lanes_left = @lanes_left, retried = @retried,
    below = case when w.lane = @to_lane then w.below end
from next where w.task_id = next.task_id and case w.state when 'backlog' then true end;

-- SendWithoutLanes sends the first messages of a removed lane set's backlog to a queue.
-- name: SendWithoutLanes :execrows
with next as (
  select n.task_id, nextval('scheduler_go.work_place_seq') as place
  from (
    select b.task_id from scheduler_go.work b
    where b.lane_set = @lane_set and b.state = 'backlog'
    order by (b.timed_out = 0), b.since, b.place
    limit @count
    for no key update
  ) n
)
update scheduler_go.work w
set state = 'outgoing', place = next.place, queue = @queue, since = @now,
    lane_set = null, lane = null, lane_name = null, lanes_left = 0, soft_limit = null, hard_limit = null, url = null
from next where w.task_id = next.task_id;

-- RecordLaneSets records that a process is configured with the lane sets.
-- name: RecordLaneSets :exec
insert into scheduler_go.configured_lanes as c (lane_set, seen)
select lane_set, @now::timestamptz from unnest(@lane_sets::text[]) lane_set order by lane_set
on conflict (lane_set) do update set seen = greatest(c.seen, excluded.seen);

-- RemovedLaneSets lists the lane sets with a backlog that no process is configured with. A set counts as
-- removed once calls have found for some time that no process recorded it recently. A gap between the
-- calls, in which no process could record, restarts that time.
-- name: RemovedLaneSets :many
with recursive sets as (
  (select lane_set from scheduler_go.work where state = 'backlog' order by lane_set limit 1)
  union all
  select (select w.lane_set from scheduler_go.work w where w.state = 'backlog' and w.lane_set > sets.lane_set order by w.lane_set limit 1)
  from sets where lane_set is not null
), looked as (
  update scheduler_go.configured_lanes c
  set looked = @now::timestamptz,
      unseen = case when c.seen >= @seen_after::timestamptz then null
                    when c.looked >= @looked_after::timestamptz then coalesce(c.unseen, @now) else @now end
  from sets where c.lane_set = sets.lane_set
  returning c.lane_set, c.unseen
)
select lane_set::text from sets
where lane_set is not null and not exists (select from scheduler_go.configured_lanes c where c.lane_set = sets.lane_set)
union all
select lane_set from looked where unseen <= @unseen_before::timestamptz
order by 1;

-- LaneSketches returns the sketches of the listers, decayed to now.
-- name: LaneSketches :many
select lister, first, bucket,
       (weight * power(2, least(0, extract(epoch from as_of - @now::timestamptz)::double precision / @half_life::double precision)))::double precision as weight
from scheduler_go.lane_sketches
where lane_set = @lane_set and lister = any(@listers::text[]);

-- RecordTimeouts records time-outs of visits.
-- name: RecordTimeouts :exec
insert into scheduler_go.lane_timeouts as l (url, visit_type, claimed, timed_out, recorded)
select o.url, o.visit_type, min(o.claimed), max(o.timed_out), max(o.received)
from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type, unnest(@claimed::timestamptz[]) as claimed,
             unnest(@timed_out::double precision[]) as timed_out, unnest(@received::timestamptz[]) as received) o
group by o.url, o.visit_type
order by o.url, o.visit_type
on conflict (url, visit_type) do update
set claimed = case when l.timed_out >= extract(epoch from excluded.claimed) then least(l.claimed, excluded.claimed) else excluded.claimed end,
    timed_out = greatest(l.timed_out, excluded.timed_out), recorded = excluded.recorded;

-- MoveRuns gives open runs a new Celery task id. It must not set status: the trigger would move their tasks
-- on.
-- name: MoveRuns :exec
update public.task_run r
set backend_id = o.new_id::text,
    metadata = jsonb_set(coalesce(r.metadata, '{}'), '{timed_out}',
      coalesce(r.metadata -> 'timed_out', '[]') || to_jsonb(o.lane_name))
from (select unnest(@run::bigint[]) as id, unnest(@new_id::uuid[]) as new_id, unnest(@lane_name::text[]) as lane_name) o
where r.id = o.id;

-- ForgetHeldVisits deletes held failed visits that turned out to be time-outs.
-- name: ForgetHeldVisits :exec
delete from scheduler_go.held_visits where task_id = any(@task_ids::uuid[]);

-- RememberWork records runtimes of work. Of two batches of events the later one may be written first: an older runtime
-- doesn't replace a newer one.
-- name: RememberWork :exec
insert into scheduler_go.lane_memory as m (memory, seconds, before, at_least, behind, recorded)
select o.memory, o.seconds, 0, o.at_least, o.behind, o.recorded
from (select unnest(@key::bigint[]) as memory, unnest(@seconds::real[]) as seconds, unnest(@at_least::boolean[]) as at_least,
             unnest(@behind::real[]) as behind, unnest(@received::timestamptz[]) as recorded) o
order by o.memory
on conflict (memory) do update
set seconds = excluded.seconds, before = case when m.at_least then 0 else m.seconds end,
    at_least = excluded.at_least, behind = excluded.behind, recorded = excluded.recorded
where excluded.recorded >= m.recorded;

-- CountWork adds runtimes to sketches.
-- name: CountWork :exec
insert into scheduler_go.lane_sketches as s (lane_set, lister, first, bucket, weight, as_of)
select o.lane_set, o.lister, o.first, o.bucket, o.weight, @now::timestamptz
from (select unnest(@set::text[]) as lane_set, unnest(@lister::text[]) as lister, unnest(@first::boolean[]) as first,
             unnest(@bucket::smallint[]) as bucket, unnest(@value::double precision[]) as weight) o
order by o.lane_set, o.lister, o.first, o.bucket
on conflict (lane_set, lister, first, bucket) do update
set weight = excluded.weight
      + s.weight * power(2, least(0, extract(epoch from s.as_of - excluded.as_of)::double precision / @half_life::double precision)),
    as_of = greatest(s.as_of, excluded.as_of);

-- RecordLanes adds to the history of lanes.
-- name: RecordLanes :exec
insert into scheduler_go.lane_history as h (lane_set, lane, minute, what, bucket, pieces)
select o.lane_set, o.lane, date_trunc('minute', o.received), o.what, o.bucket, o.pieces
from (select unnest(@set::text[]) as lane_set, unnest(@lane::text[]) as lane, unnest(@minute::timestamptz[]) as received,
             unnest(@what::text[]) as what, unnest(@bucket::smallint[]) as bucket, unnest(@value::bigint[]) as pieces) o
order by 1, 2, 3, 4, 5
on conflict (lane_set, lane, minute, what, bucket) do update set pieces = h.pieces + excluded.pieces;

-- LaneHistory sums the history since a moment.
-- name: LaneHistory :many
select lane, what, bucket, sum(pieces)::bigint as pieces
from scheduler_go.lane_history
where lane_set = @lane_set and minute >= @since
group by lane, what, bucket;

-- LaneStates counts a set's work by lane.
-- name: LaneStates :many
select lane::smallint as lane, count(*) filter (where state = 'backlog' and timed_out > 0) as timed_out,
       count(*) filter (where state = 'backlog' and timed_out = 0) as waiting,
       count(*) filter (where state <> 'backlog') as sent, count(started) as running,
       coalesce(min(since) filter (where state = 'backlog'), 'epoch')::timestamptz as oldest
from scheduler_go.work
where lane_set = @lane_set and state <> 'settled'
group by lane;

-- ForgetLanes deletes old history, time-outs and memories, and the rows of removed lanes and listers.
-- name: ForgetLanes :exec
with history as (
  delete from scheduler_go.lane_history h where h.minute < @history_before
), sketches as (
  delete from scheduler_go.lane_sketches s where s.as_of < @memory_before
), sets as (
  delete from scheduler_go.configured_lanes c
  where c.seen < @timeouts_before and not exists (select from scheduler_go.work w where w.lane_set = c.lane_set and w.state = 'backlog')
), overs as (
  delete from scheduler_go.lane_timeouts o where o.recorded < @timeouts_before
)
delete from scheduler_go.lane_memory m where m.recorded < @memory_before;

-- LanedVisits returns the sent visits of the origins that may be requeued, or refused by their hosters, and
-- locks them against it. Settled work has hosters while it waits for its result.
-- name: LanedVisits :many
select w.url::text as url, w.visit_type::text as visit_type, w.task_id, w.since::timestamptz as since
from scheduler_go.work w
where w.task_id = any(array(
    select f.task_id from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type) k
    cross join lateral (select s.task_id from scheduler_go.work s where s.url = k.url and s.visit_type = k.visit_type offset 0) f))
  and (w.state in ('outgoing', 'sent') and w.lanes_left > 0 or w.state in ('outgoing', 'sent', 'settled') and w.hosters is not null)
order by w.task_id
for key share of w;

-- VisitTimeouts returns the time-outs of visits of the origins. It must follow LanedVisits: either then has
-- a visit that is requeued in between.
-- name: VisitTimeouts :many
select o.url, o.visit_type, o.claimed, o.timed_out
from scheduler_go.lane_timeouts o
join (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type) k
  on o.url = k.url and o.visit_type = k.visit_type;

-- HoldVisits records failed visits that don't count yet.
-- name: HoldVisits :exec
insert into scheduler_go.held_visits (task_id, url, visit_type, date)
select unnest(@task_id::uuid[]), unnest(@url::text[]), unnest(@visit_type::text[]), unnest(@date::timestamptz[])
on conflict do nothing;

-- ReleasedVisits lists held failed visits whose try has ended otherwise than by a time-out, with a known result.
-- name: ReleasedVisits :many
select h.url, h.visit_type, h.date from scheduler_go.held_visits h
where not exists (select from scheduler_go.work w where w.task_id = h.task_id and (w.state in ('outgoing', 'sent') or w.state = 'settled' and w.hosters is not null))
order by h.date
limit @max_visits;

-- DropHeldVisits deletes held failed visits that are counted.
-- name: DropHeldVisits :exec
delete from scheduler_go.held_visits h
using (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type, unnest(@date::timestamptz[]) as date) k
where h.url = k.url and h.visit_type = k.visit_type and h.date = k.date;
