-- +goose Up
-- A drain looks up what listers write only where that may have changed, and compares candidates column by column.
-- Of two whole rows, PostgreSQL takes each apart to compare them.

-- When an origin may be visited again, by the default cooldowns of the Python scheduler. They are in hours, so
-- that no time zone matters. Far dates, to which no interval can be added, stay as they are: they are in the future anyway.
-- Not strict and not immutable, so that the planner inlines it.
create function scheduler_go.due_at(last_scheduled timestamptz, last_visit timestamptz, last_visit_status public.last_visit_status) returns timestamptz
language sql stable parallel safe as $$
select greatest(
  '-infinity',
  last_scheduled + case when last_scheduled < '200000-01-01Z' then interval '12 hours' else interval '0' end,
  case when last_scheduled < last_visit then null
  else last_scheduled + case when last_scheduled < '200000-01-01Z' then interval '168 hours' else interval '0' end
  end,
  case when last_visit is null and last_visit_status in ('failed', 'not_found') then 'infinity'
  else last_visit + case
    when last_visit >= '200000-01-01Z' then interval '0'
    when last_visit_status = 'failed' then interval '336 hours'
    when last_visit_status = 'not_found' then interval '744 hours'
    end
  end
)
$$;
comment on function scheduler_go.due_at(timestamptz, timestamptz, public.last_visit_status) is 'Returns the moment after which an origin may be visited, by the default cooldowns';

-- Origins that are set aside are left out by a subquery of its own for each row, which the planner leaves
-- alone: the walks stay as they are.
create or replace view scheduler_go.candidates_now as
select
  lo.lister_id,
  lo.visit_type,
  due.at as due,
  due.at >= now() as parked,
  lo.last_update,
  lo.first_seen,
  ovs.last_scheduled,
  case when ovs.last_snapshot is not null then scheduler_go.lag_of(lo.last_update, ovs.last_successful) end as lag,
  ovs.next_visit_queue_position as queue_position,
  ovs.last_snapshot is not null as loaded,
  coalesce(ovs.last_visit_status = 'successful', false) as successful,
  lo.url,
  lo.is_fork is true and (select by_fork from scheduler_go.candidate_build) as fork,
  case when (select by_freshness from scheduler_go.candidate_build)
  then scheduler_go.moment_of(lo.visit_type, lo.url, lo.lister_id, lo.first_seen, lo.last_update, ovs.last_snapshot is not null, ovs.last_successful)
  end as moment
from listed_origins lo
left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
cross join lateral (select scheduler_go.due_at(ovs.last_scheduled, ovs.last_visit, ovs.last_visit_status) as at) due
where lo.enabled
  and (select true from scheduler_go.set_aside_origins s
       where s.lister_id = lo.lister_id and s.url = lo.url and s.visit_type = lo.visit_type) is null;

-- It updates candidates in their physical order: fewer pages are read, changed and logged. A candidate of which only
-- visits have changed keeps the rest: a change of that rest has a row of its own here, and is drained with it or after it.
-- +goose StatementBegin
create or replace function scheduler_go.drain_candidates(for_visit_type text, max_changes bigint) returns bigint
language sql
-- Counts of a queue mislead the planner: it shall look origins up one by one.
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_sort = off set jit = off
as $$
with taken as (
  delete from scheduler_go.candidate_changes
  where ctid = any(array(
    select ctid from scheduler_go.candidate_changes
    where visit_type = for_visit_type and place >= (select changes_low from scheduler_go.low_water)
    order by visit_type, place limit max_changes))
  returning url, listed
), changed as materialized (
  select url, bool_or(listed) as listed from taken group by url
), held as materialized (
  select c.*, c.ctid as place, changed.listed
  from changed join scheduler_go.candidates c on c.url = changed.url and c.visit_type = for_visit_type
), live as materialized (
  select n.*
  from changed join scheduler_go.candidates_now n on n.url = changed.url and n.visit_type = for_visit_type
  where changed.listed
  union all
  select c.lister_id, c.visit_type, due.at, due.at >= now(), c.last_update, c.first_seen, ovs.last_scheduled,
         case when ovs.last_snapshot is not null then scheduler_go.lag_of(c.last_update, ovs.last_successful) end,
         ovs.next_visit_queue_position, ovs.last_snapshot is not null, coalesce(ovs.last_visit_status = 'successful', false), c.url, c.fork,
         case when (select by_freshness from scheduler_go.candidate_build)
         then scheduler_go.moment_of(c.visit_type, c.url, c.lister_id, c.first_seen, c.last_update, ovs.last_snapshot is not null, ovs.last_successful) end
  from held c
  left join public.origin_visit_stats ovs on ovs.url = c.url and ovs.visit_type = for_visit_type
  cross join lateral (select scheduler_go.due_at(ovs.last_scheduled, ovs.last_visit, ovs.last_visit_status) as at) due
  where not c.listed
), diff as materialized (
  select held.place, held.last_update as was_updated, live.*
  from held full join live on live.url = held.url and live.lister_id = held.lister_id
  where (held.place is null or live.url is null or live.due is distinct from held.due
    or live.parked is distinct from held.parked
    or live.last_update is distinct from held.last_update
    or live.first_seen is distinct from held.first_seen
    or live.last_scheduled is distinct from held.last_scheduled
    or live.lag is distinct from held.lag
    or live.queue_position is distinct from held.queue_position
    or live.loaded is distinct from held.loaded
    or live.successful is distinct from held.successful
    or live.fork is distinct from held.fork
    or live.moment is distinct from held.moment)
  order by held.place
), gone as (
  delete from scheduler_go.candidates
  where ctid = any(array(select place from diff where url is null))
), moved as (
  update scheduler_go.candidates c
  set due = d.due, parked = d.parked, last_update = d.last_update, first_seen = d.first_seen,
      last_scheduled = d.last_scheduled, lag = d.lag, queue_position = d.queue_position,
      loaded = d.loaded, successful = d.successful, fork = d.fork, moment = d.moment
  from diff d where c.ctid = d.place and d.url is not null
), fresh as (
  insert into scheduler_go.candidates
  select lister_id, visit_type, due, parked, last_update, first_seen, last_scheduled, lag, queue_position, loaded, successful, url, fork, moment from diff where place is null
), counted as (
  insert into scheduler_go.candidate_groups as g (visit_type, without_update, with_update)
  select for_visit_type,
         count(*) filter (where url is not null and last_update is null) - count(*) filter (where place is not null and was_updated is null),
         count(last_update) - count(was_updated)
  from diff
  on conflict (visit_type) do update
  set without_update = g.without_update + excluded.without_update,
      with_update = g.with_update + excluded.with_update
  where excluded.without_update <> 0 or excluded.with_update <> 0
)
select count(*) from taken
$$;
-- +goose StatementEnd
