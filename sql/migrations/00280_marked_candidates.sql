-- +goose Up
-- A claim notes the origins that it marks itself, all at once and with the date, instead of
-- by a trigger for each. By that grabs know, without a look at its rows, that an origin
-- cools down.
alter table scheduler_go.candidate_changes add column scheduled timestamptz;
comment on column scheduler_go.candidate_changes.scheduled is 'The claim that changed it marked it as scheduled at this moment, and changed nothing else; null: anything may have changed';

-- What claims noted is drained first: an origin that they marked and that was changed later
-- has, as long as the later note is there, one that says so.
drop index scheduler_go.candidate_changes_idx;
create index candidate_changes_idx on scheduler_go.candidate_changes (visit_type, scheduled);

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
  select held.place, live.url, live.candidate
  from held full join live on live.url = held.url and live.lister_id = held.lister_id
  where live.candidate is distinct from held.candidate
), gone as (
  delete from scheduler_go.candidates
  where ctid = any(array(select place from diff where place is not null))
  returning last_update
), fresh as (
  insert into scheduler_go.candidates
  select (candidate).* from diff where url is not null
  returning last_update
), grown as (
  select for_visit_type,
         (select count(*) from fresh where last_update is null) - (select count(*) from gone where last_update is null),
         (select count(last_update) from fresh) - (select count(last_update) from gone)
), counted as (
  insert into scheduler_go.candidate_groups as g (visit_type, without_update, with_update)
  table grown
  on conflict (visit_type) do update
  set without_update = g.without_update + excluded.without_update,
      with_update = g.with_update + excluded.with_update
)
select count(*) from taken
$$;

create or replace function scheduler_go.next_candidate_change(for_visit_type text) returns text
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$ select url from scheduler_go.candidate_changes where visit_type = for_visit_type order by visit_type, scheduled limit 1 $$;
-- +goose StatementEnd
