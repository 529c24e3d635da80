-- +goose Up
-- Candidates: a copy of what the visit policies select and order by, one row for each
-- enabled listed origin, with an index in the order of each policy. It lies in two
-- tables of the peer's, both of which would have to be read to find the next origins.

-- The difference of two dates may be more than an interval holds: PostgreSQL 15 then
-- gives a negative one, and PostgreSQL 17 an error, which would stop every drain of
-- the changes that such an origin is among; here it is more than any other. Stable, as
-- extract is: only so is the function inlined. Seconds are exact (numeric), infinity
-- included; 2^63 microseconds are 9223372036854.775808 s.
create function scheduler_go.lag_behind(last_update timestamptz, last_successful timestamptz) returns interval
language sql stable parallel safe
as $$
select case
  when extract(epoch from last_update) - extract(epoch from last_successful) < 9223372036854
  then last_update - last_successful
  else interval '1000000 years'
end
$$;
comment on function scheduler_go.lag_behind(timestamptz, timestamptz) is
  'How much later than the last successful visit an origin changed, if it did, for any dates';

-- The rule, written once: what the copy holds. Cooldowns are the peer's
-- defaults; hours, so that no time zone matters. Far dates, to which no interval
-- can be added, stay as they are: they are in the future anyway.
create view scheduler_go.candidates_now as
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
  lo.url
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

-- No key: one writer at a time (an advisory lock) keeps the rows apart. The
-- indexes are made once the rows are there; see the build in the program.
create table scheduler_go.candidates (
  lister_id      uuid not null,
  visit_type     text not null,
  due            timestamptz not null,
  parked         boolean not null,
  last_update    timestamptz,
  first_seen     timestamptz not null,
  last_scheduled timestamptz,
  lag            interval,
  queue_position bigint,
  loaded         boolean not null,
  successful     boolean not null,
  url            text not null
) with (
  -- Rows are moved more than they are added: without a vacuum now and then,
  -- walks pass by the dead.
  autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_cost_delay = 0
);

comment on view scheduler_go.candidates_now is 'What the table candidates should hold, computed from the peer''s tables';
comment on table scheduler_go.candidates is 'Enabled listed origins, with what visit policies select and order by; those named in candidate_changes may be out of date';
comment on column scheduler_go.candidates.due is 'Moment after which it may be visited, by the default cooldowns';
comment on column scheduler_go.candidates.parked is 'Whether it is kept out of the indexes of the policies, as it was not due yet when last looked at';
comment on column scheduler_go.candidates.lag is 'How much later than its last successful visit it changed; null: it did not, or was never loaded';
comment on column scheduler_go.candidates.queue_position is 'Where it stands in the queue of its visit type: origin_visit_stats.next_visit_queue_position';
comment on column scheduler_go.candidates.loaded is 'Whether it has a snapshot';
comment on column scheduler_go.candidates.successful is 'Whether its last visit succeeded';

create table scheduler_go.candidate_changes (
  visit_type text not null,
  url        text not null
) with (
  autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
create index candidate_changes_idx on scheduler_go.candidate_changes (visit_type);

comment on table scheduler_go.candidate_changes is 'Origins whose candidates may be out of date: a transaction changed what they are computed from';

create table scheduler_go.candidate_groups (
  visit_type     text primary key,
  without_update bigint not null,
  with_update    bigint not null
) with (fillfactor = 50);

comment on table scheduler_go.candidate_groups is 'How many candidates there are of each visit type, counted as they change';
comment on column scheduler_go.candidate_groups.without_update is 'How many of them have a lister that tells no last update (group A)';
comment on column scheduler_go.candidate_groups.with_update is 'How many others there are (group B)';

create table scheduler_go.candidate_build (
  phase            text not null check (phase in ('empty', 'rows', 'indexes', 'ready')),
  rows             bigint not null default 0,
  after_lister     uuid,
  after_url        text,
  after_visit_type text,
  only_row         boolean primary key default true check (only_row),
  by_lister        boolean not null default false
);
insert into scheduler_go.candidate_build (phase) values ('empty');

comment on table scheduler_go.candidate_build is 'How far candidates is built, so that it can go on after an interruption';
comment on column scheduler_go.candidate_build.phase is 'What is to be done next. empty: start. rows: copy rows. indexes: make indexes. ready: nothing more';
comment on column scheduler_go.candidate_build.rows is 'How many candidates were copied';
comment on column scheduler_go.candidate_build.after_lister is 'Lister of the last one copied; with after_url and after_visit_type, its key';
comment on column scheduler_go.candidate_build.by_lister is 'Whether candidates have indexes by lister too, for queues that groups of listers share';

-- The triggers (00220, 00221) only note which origins changed. What became of them is read
-- later, by one reader that sees the changes of all transactions: a trigger sees
-- those of its own only, and would miss what is done beside it.

-- +goose StatementBegin
create function scheduler_go.note_candidate() returns trigger
language plpgsql security definer as $$
begin
  if tg_op <> 'INSERT' then
    insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url);
    if tg_op = 'DELETE' or new.url = old.url and new.visit_type = old.visit_type then
      return null;
    end if;
  end if;
  insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url);
  return null;
end
$$;

create function scheduler_go.rebuild_candidates() returns trigger
language plpgsql security definer as $$
begin
  update scheduler_go.candidate_build set phase = 'empty';
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.note_candidate() is 'Notes that an origin''s candidates may be out of date';
comment on function scheduler_go.rebuild_candidates() is 'Starts the build of candidates anew after a table was emptied';

-- +goose StatementBegin
create function scheduler_go.drain_candidates(for_visit_type text, max_changes bigint) returns bigint
language sql
-- Counts of a queue mislead the planner: it shall look origins up one by one.
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
with taken as (
  delete from scheduler_go.candidate_changes
  where ctid = any(array(
    select ctid from scheduler_go.candidate_changes where visit_type = for_visit_type limit max_changes))
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

create function scheduler_go.unpark_candidates(max_candidates bigint) returns bigint
language sql
set enable_seqscan = off set jit = off
as $$
with unparked as (
  update scheduler_go.candidates set parked = false
  where ctid = any(array(
    select c.ctid
    from scheduler_go.candidate_groups g
    cross join lateral (
      select ctid from scheduler_go.candidates
      where visit_type = g.visit_type and parked and due < now()
      limit max_candidates
    ) c
    limit max_candidates))
  returning visit_type
)
select count(*) from unparked
$$;
create function scheduler_go.copy_candidates(max_candidates bigint) returns bigint
language sql
-- Along the key, whatever the counts say: each step is short and starts where
-- the last one ended.
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_sort = off set jit = off
as $$
with copied as (
  insert into scheduler_go.candidates
  select n.* from scheduler_go.candidates_now n
  where (n.lister_id, n.url, n.visit_type) > (
    (select coalesce(after_lister, '00000000-0000-0000-0000-000000000000') from scheduler_go.candidate_build),
    (select coalesce(after_url, '') from scheduler_go.candidate_build),
    (select coalesce(after_visit_type, '') from scheduler_go.candidate_build))
  order by n.lister_id, n.url, n.visit_type
  limit max_candidates
  returning lister_id, url, visit_type
), last as (
  select * from copied order by lister_id desc, url desc, visit_type desc limit 1
)
update scheduler_go.candidate_build b
set rows = b.rows + n.copied,
    phase = case when n.copied < max_candidates then 'indexes' else 'rows' end,
    after_lister = coalesce(last.lister_id, after_lister),
    after_url = coalesce(last.url, after_url),
    after_visit_type = coalesce(last.visit_type, after_visit_type)
from (select count(*) as copied from copied) n left join last on true
where b.phase = 'rows'
returning b.rows
$$;
-- +goose StatementEnd
comment on function scheduler_go.copy_candidates(bigint) is
  'Copies some more rows into candidates while it is built; returns how many it has now, or null if the build has to start anew. The caller holds the lock of candidates';
comment on function scheduler_go.drain_candidates(text, bigint) is
  'Takes some changes of a visit type and brings the candidates of their origins up to date; returns how many changes it took. It is one statement with one snapshot, so that a change is seen together with what it changed. The caller holds the lock of candidates';
comment on function scheduler_go.unpark_candidates(bigint) is
  'Puts candidates that are due by now into the indexes of the policies; returns how many. The caller holds the lock of candidates';
