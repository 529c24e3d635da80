-- +goose Up
-- Candidates know forks, for policies that divide their visits between originals and forks.
-- That is computed only in a database where such a policy is configured: migrate then sets
-- by_fork, and has candidates built anew.
alter table scheduler_go.candidate_build add column by_fork boolean not null default false;
comment on column scheduler_go.candidate_build.by_fork is 'Whether candidates tell forks from originals, and have indexes for each';
alter table scheduler_go.candidates add column fork boolean not null default false;
comment on column scheduler_go.candidates.fork is 'Whether its lister knows it to be a fork; false unless candidate_build.by_fork';

create or replace view scheduler_go.candidates_now as
select
  lo.lister_id,
  lo.visit_type,
  due.at as due,
  due.at >= now() as parked,
  lo.last_update,
  lo.first_seen,
  ovs.last_scheduled,
  case when ovs.last_snapshot is not null and lo.last_update > ovs.last_successful
  then scheduler_go.lag_behind(lo.last_update, ovs.last_successful)
  end as lag,
  ovs.next_visit_queue_position as queue_position,
  ovs.last_snapshot is not null as loaded,
  coalesce(ovs.last_visit_status = 'successful', false) as successful,
  lo.url,
  lo.is_fork is true and (select by_fork from scheduler_go.candidate_build) as fork
from listed_origins lo
left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
cross join lateral (select greatest(
  '-infinity',
  ovs.last_scheduled + case when ovs.last_scheduled < '200000-01-01Z' then interval '12 hours' else interval '0' end,
  case when ovs.last_scheduled < ovs.last_visit then null
  else ovs.last_scheduled + case when ovs.last_scheduled < '200000-01-01Z' then interval '168 hours' else interval '0' end
  end,
  case when ovs.last_visit is null and ovs.last_visit_status in ('failed', 'not_found') then 'infinity'
  else ovs.last_visit + case
    when ovs.last_visit >= '200000-01-01Z' then interval '0'
    when ovs.last_visit_status = 'failed' then interval '336 hours'
    when ovs.last_visit_status = 'not_found' then interval '744 hours'
    end
  end
) as at) due
where lo.enabled;

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
      loaded = (d.becomes).loaded, successful = (d.becomes).successful, fork = (d.becomes).fork
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

create or replace function scheduler_go.check_candidates(first_page bigint, end_page bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_sort = off set jit = off
as $$
with wrong as materialized (
  select c.visit_type, c.url
  from scheduler_go.candidates c
  left join lateral (
    select true as found, n.*
    from scheduler_go.candidates_now n
    where n.lister_id = c.lister_id and n.url = c.url and n.visit_type = c.visit_type
  ) n on true
  where c.ctid >= format('(%s,0)', first_page)::tid and c.ctid < format('(%s,0)', end_page)::tid
    and (n.found is null
      or (c.due, c.last_update, c.first_seen, c.last_scheduled, c.lag, c.queue_position, c.loaded, c.successful, c.fork) is distinct from
         (n.due, n.last_update, n.first_seen, n.last_scheduled, n.lag, n.queue_position, n.loaded, n.successful, n.fork))
), noted as (
  insert into scheduler_go.candidate_changes (visit_type, url)
  select distinct visit_type, url from wrong
  where (visit_type, url) not in (select p.visit_type, p.url from scheduler_go.candidate_changes p)
  returning true
)
select count(*) from noted
$$;
-- +goose StatementEnd
