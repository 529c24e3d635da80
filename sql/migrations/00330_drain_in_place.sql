-- +goose Up
-- A drain updates candidates in the order of their places, and leaves the new row on the
-- page of the old one, where there is room: fewer pages are read, changed and logged.
alter table scheduler_go.candidates set (fillfactor = 90);

-- +goose StatementBegin
create or replace function scheduler_go.drain_candidates(for_visit_type text, max_changes bigint) returns bigint
language sql
-- Counts of a queue mislead the planner: it shall look origins up one by one.
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_sort = off set jit = off
as $$
with taken as (
  delete from scheduler_go.candidate_changes
  where ctid = any(array(
    select ctid from scheduler_go.candidate_changes where visit_type = for_visit_type order by visit_type, scheduled limit max_changes))
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
      loaded = (d.becomes).loaded, successful = (d.becomes).successful
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
)
select count(*) from taken
$$;
-- +goose StatementEnd
