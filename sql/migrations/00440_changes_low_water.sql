-- +goose Up
-- Under a snapshot of hours, drained changes of candidates stay in the index, and each drain and
-- each grab passed them by. Now changes have places, and looks at them begin at a low-water mark,
-- like looks at outgoing work (00323).

-- low_water is locked before candidate_changes, as claims do: deliverers read it for as long as they
-- publish, and whoever writes visits or listed origins waits for candidate_changes.
alter table scheduler_go.low_water add column changes_low bigint not null default 0, add column changes_next bigint;
update scheduler_go.low_water set next = null, next_xid = null;

create sequence scheduler_go.candidate_changes_place_seq;
alter table scheduler_go.candidate_changes add column place bigint not null default 0;
-- A transaction has an id before it gets places: raise_low_water relies on that.
alter table scheduler_go.candidate_changes alter column place
  set default case when pg_current_xact_id() is not null then nextval('scheduler_go.candidate_changes_place_seq') end;
alter sequence scheduler_go.candidate_changes_place_seq owned by scheduler_go.candidate_changes.place;
comment on column scheduler_go.candidate_changes.place is 'Order in which changes were noted, and in which those of a visit type are drained: a mark of a claim before what changed the origin after it';

drop index scheduler_go.candidate_changes_idx;
create index candidate_changes_idx on scheduler_go.candidate_changes (visit_type, place);

comment on table scheduler_go.low_water is 'Up to which place nothing in work is outgoing, and all changes of candidates are drained';
comment on column scheduler_go.low_water.next_xid is 'The transaction that wrote next and changes_next; those who had got such places had begun before it';
comment on column scheduler_go.low_water.changes_low is 'All rows of candidate_changes have this place or a greater one';
comment on column scheduler_go.low_water.changes_next is 'Like next, of candidate_changes';

-- +goose StatementBegin
-- Steps from one known visit type to the next, and looks for others in between, so that it passes
-- by no drained changes: after its first drain a visit type has a row in candidate_groups.
create function scheduler_go.changed_visit_types() returns setof text
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
with recursive t as (
  select '' as visit_type
  union all
  select case when known.next is null
    then (select c.visit_type from scheduler_go.candidate_changes c
          where c.visit_type > t.visit_type order by c.visit_type, c.place limit 1)
    else coalesce((select c.visit_type from scheduler_go.candidate_changes c
                   where c.visit_type > t.visit_type and c.visit_type < known.next order by c.visit_type, c.place limit 1), known.next)
  end
  from t cross join lateral (
    select min(g.visit_type) as next from scheduler_go.candidate_groups g where g.visit_type > t.visit_type) known
  where t.visit_type is not null
)
select visit_type from t where scheduler_go.next_candidate_change(visit_type) is not null
$$;

create or replace function scheduler_go.next_candidate_change(for_visit_type text) returns text
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
select url from scheduler_go.candidate_changes
where visit_type = for_visit_type and place >= (select changes_low from scheduler_go.low_water)
order by visit_type, place limit 1
$$;

create function scheduler_go.pending_changes(for_visit_type text, bound bigint) returns bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
select count(*) from (
  select from scheduler_go.candidate_changes
  where visit_type = for_visit_type and place >= (select changes_low from scheduler_go.low_water)
  limit bound) c
$$;

-- As in 00323, for both. next_xid is an id that is given after the places were read.
create or replace function scheduler_go.raise_low_water(step bigint) returns void
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  w scheduler_go.low_water;
  latest bigint;
  latest_change bigint;
  lowest bigint;
  lowest_change bigint;
begin
  select last_value into latest from scheduler_go.work_place_seq;
  select last_value into latest_change from scheduler_go.candidate_changes_place_seq;
  select * into w from scheduler_go.low_water for update skip locked;
  if not found then -- another process does
    return;
  end if;
  if latest < w.low or latest_change < w.changes_low then -- places began anew
    update scheduler_go.low_water set low = 0, next = null, changes_low = 0, changes_next = null, next_xid = null;
  elsif w.next_xid is null or w.next_xid > pg_snapshot_xmax(pg_current_snapshot()) then -- or this is another server
    if latest >= w.low + step or latest_change >= w.changes_low + step then
      update scheduler_go.low_water set next = latest, changes_next = latest_change, next_xid = pg_current_xact_id();
    end if;
  elsif pg_snapshot_xmin(pg_current_snapshot()) >= w.next_xid then
    select min(place) into lowest from (
      (select place from scheduler_go.work where state = 'outgoing' and urgent and place >= w.low order by place limit 1)
      union all
      (select place from scheduler_go.work where state = 'outgoing' and not urgent and place >= w.low order by place limit 1)) o;
    select min((select c.place from scheduler_go.candidate_changes c
                where c.visit_type = t and c.place >= w.changes_low order by c.visit_type, c.place limit 1))
    into lowest_change from scheduler_go.changed_visit_types() t;
    update scheduler_go.low_water
    set low = least(lowest, w.next), changes_low = least(lowest_change, w.changes_next), next = null, changes_next = null, next_xid = null;
  end if;
end
$$;

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
  returning url
), changed as materialized (
  select distinct url from taken
), live as materialized (
  select n.lister_id, n.url, n as candidate
  from changed join scheduler_go.candidates_now n on n.url = changed.url and n.visit_type = for_visit_type
), held as materialized (
  select c.lister_id, c.url, c as candidate, c.ctid as place
  from changed join scheduler_go.candidates c on c.url = changed.url and c.visit_type = for_visit_type
), diff as materialized (
  select held.place, held.candidate as was, live.url, live.candidate as becomes
  from held full join live on live.url = held.url and live.lister_id = held.lister_id
  where live.candidate is distinct from held.candidate
  order by held.place
), gone as (
  delete from scheduler_go.candidates
  where ctid = any(array(select place from diff where url is null))
), moved as (
  update scheduler_go.candidates c
  set due = (d.becomes).due, parked = (d.becomes).parked, last_update = (d.becomes).last_update, first_seen = (d.becomes).first_seen,
      last_scheduled = (d.becomes).last_scheduled, lag = (d.becomes).lag, queue_position = (d.becomes).queue_position,
      loaded = (d.becomes).loaded, successful = (d.becomes).successful, fork = (d.becomes).fork, moment = (d.becomes).moment
  from diff d where c.ctid = d.place and d.url is not null
), fresh as (
  insert into scheduler_go.candidates
  select (becomes).* from diff where place is null
), counted as (
  insert into scheduler_go.candidate_groups as g (visit_type, without_update, with_update)
  select for_visit_type,
         count(*) filter (where url is not null and (becomes).last_update is null) - count(*) filter (where place is not null and (was).last_update is null),
         count((becomes).last_update) - count((was).last_update)
  from diff
  on conflict (visit_type) do update
  set without_update = g.without_update + excluded.without_update,
      with_update = g.with_update + excluded.with_update
  where excluded.without_update <> 0 or excluded.with_update <> 0
)
select count(*) from taken
$$;
-- +goose StatementEnd
comment on function scheduler_go.changed_visit_types() is 'Lists the visit types with changes of candidates';
comment on function scheduler_go.pending_changes(text, bigint) is 'Counts the changes of a visit type that are not drained, up to a bound';
comment on function scheduler_go.raise_low_water(bigint) is
  'Raises low_water at the second call after work or changes got so many more places. It is called in a transaction of its own';
