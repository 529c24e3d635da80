-- +goose Up
-- Candidates know forks, for policies that divide their visits between originals and forks,
-- and moments, for the policy freshness. Each is computed only in a database where such a
-- policy is configured: migrate then sets by_fork or by_freshness, and has candidates built anew.
alter table scheduler_go.candidate_build add column by_fork boolean not null default false;
comment on column scheduler_go.candidate_build.by_fork is 'Whether candidates tell forks from originals, and have indexes for each';
alter table scheduler_go.candidates add column fork boolean not null default false;
comment on column scheduler_go.candidates.fork is 'Whether its lister knows it to be a fork; false unless candidate_build.by_fork';
alter table scheduler_go.candidate_build add column by_freshness boolean not null default false;
comment on column scheduler_go.candidate_build.by_freshness is 'Whether candidates have moments, and an index by them';
alter table scheduler_go.candidates add column moment timestamptz;
comment on column scheduler_go.candidates.moment is 'When a visit of it is worth its cost; null unless its visit type is in freshness_control';

create table scheduler_go.freshness_control (
  visit_type text primary key,
  longest    double precision not null,
  cost       double precision not null,
  changes    double precision not null,
  days       double precision not null,
  threshold  double precision not null,
  stepped    timestamptz,
  applied    double precision not null
) with (fillfactor = 50);
comment on table scheduler_go.freshness_control is 'The visit types with the policy freshness, and the state of its control';
comment on column scheduler_go.freshness_control.longest is 'Seconds that an origin waits for a visit at most';
comment on column scheduler_go.freshness_control.cost is 'Seconds that a visit is expected to take of which nothing is known';
comment on column scheduler_go.freshness_control.changes is 'Estimate of an origin of which nothing is known: so many changes in so many days';
comment on column scheduler_go.freshness_control.threshold is 'What a visit must be worth at present: days times days of staleness saved for each day of a worker';
comment on column scheduler_go.freshness_control.stepped is 'When a claim last adjusted it';
comment on column scheduler_go.freshness_control.applied is 'The threshold by which moments are computed: that of when the last walk over candidates began';

create table scheduler_go.freshness (
  origin  bigint primary key,
  changes real not null,
  days    real not null,
  cost    real not null,
  seen    timestamptz not null,
  updated timestamptz,
  listed  timestamptz,
  moment  timestamptz not null
) with (fillfactor = 80);
comment on table scheduler_go.freshness is 'What visits have shown of how often origins change';
comment on column scheduler_go.freshness.origin is 'Hash of the visit type and the URL; where two have the same one, estimates are wrong, and no more';
comment on column scheduler_go.freshness.changes is 'Estimate: so many changes in so many days; 0: nothing was observed yet';
comment on column scheduler_go.freshness.cost is 'Seconds that a visit is expected to take';
comment on column scheduler_go.freshness.seen is 'The last visit that succeeded';
comment on column scheduler_go.freshness.updated is 'The last update that its lister told of, as far as the estimate knows';
comment on column scheduler_go.freshness.listed is 'When its lister had last seen it when it told of that';
comment on column scheduler_go.freshness.moment is 'When the next visit is worth its cost if the lister tells of no update before';

create table scheduler_go.freshness_listers (
  visit_type text not null,
  lister_id  uuid not null,
  changes    real not null,
  days       real not null,
  primary key (visit_type, lister_id)
);
comment on table scheduler_go.freshness_listers is 'How often origins of listers change: the estimate of one of which nothing is known';

-- For origins that are stale for sure, the formula of freshness.Origin.Moment (internal/freshness).
-- Those never visited are due since they were listed. A visit that was not learnt from (the
-- Python journal client applied it) puts the next one off all the same. Far dates are brought
-- near, as no interval can be added to them.
create function scheduler_go.moment_of(for_visit_type text, for_url text, for_lister uuid, first_seen timestamptz, last_update timestamptz, loaded boolean, last_successful timestamptz)
returns timestamptz language sql stable parallel safe
as $$
select case when s.seen is null then s.at when not s.stale then f.moment + greatest(s.at - f.seen, '0')
  else s.at + make_interval(secs => least(k.longest, 86400 * (
    s.each * (1 - exp(-least(s.updated / s.each, 700))) + sqrt(s.each * s.each + 2 * s.worth) - s.each)))
  end
from scheduler_go.freshness_control k
left join scheduler_go.freshness f on f.origin = hashtextextended(for_visit_type || ' ' || for_url, 0)
left join scheduler_go.freshness_listers p on p.visit_type = for_visit_type and p.lister_id = for_lister
cross join lateral (select
  case when loaded then greatest(f.seen, last_successful) end as seen
) v
cross join lateral (select
  greatest(least(coalesce(v.seen, first_seen), '2200-01-01Z'), '1900-01-01Z') as at,
  greatest(least(last_update, '2200-01-01Z'), '1900-01-01Z') as told
) d
cross join lateral (select
  d.at, v.seen,
  f.origin is null or coalesce(last_update > v.seen, false) as stale,
  case when v.seen is not null and last_update is not null then greatest(extract(epoch from d.told - d.at) / 86400, 0)::double precision else 0 end as updated,
  coalesce(f.days::double precision / nullif(f.changes, 0), p.days::double precision / p.changes, k.days / k.changes) as each,
  k.applied * greatest(coalesce(f.cost, k.cost), 1) / 86400 as worth
) s
where k.visit_type = for_visit_type
$$;
comment on function scheduler_go.moment_of(text, text, uuid, timestamptz, timestamptz, boolean, timestamptz) is
  'When a visit of an origin is worth its cost; null if its visit type is not in freshness_control';

-- The rule of 00210_set_aside.sql, with the two columns more.
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
  lo.is_fork is true and (select by_fork from scheduler_go.candidate_build) as fork,
  case when (select by_freshness from scheduler_go.candidate_build)
  then scheduler_go.moment_of(lo.visit_type, lo.url, lo.lister_id, lo.first_seen, lo.last_update, ovs.last_snapshot is not null, ovs.last_successful)
  end as moment
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
where lo.enabled
  and (select true from scheduler_go.set_aside_origins s
       where s.lister_id = lo.lister_id and s.url = lo.url and s.visit_type = lo.visit_type) is null;

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
