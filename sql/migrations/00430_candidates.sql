-- +goose Up
-- Candidates: a copy of what the visit policies select and order by, one row for each
-- enabled listed origin, with an index in the order of each policy. Without it, two tables of the
-- Python scheduler's would have to be read to find the next origins.

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
  url            text not null,
  fork           boolean not null default false,
  moment         timestamptz
) with (
  -- Rows are moved more than they are added: without a vacuum now and then,
  -- walks pass by the dead. A drain leaves the new row on the page of the old one,
  -- where there is room.
  autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_cost_delay = 0, fillfactor = 90
);

comment on table scheduler_go.candidates is 'Enabled listed origins, with what visit policies select and order by; those named in candidate_changes may be out of date';
comment on column scheduler_go.candidates.due is 'Moment after which it may be visited, by the default cooldowns';
comment on column scheduler_go.candidates.parked is 'Whether it is kept out of the indexes of the policies, as it was not due yet when last looked at';
comment on column scheduler_go.candidates.lag is
  'How much later than its last successful visit it changed; zero: the dates do not tell which came first; null: it did not, or was never loaded';
comment on column scheduler_go.candidates.queue_position is 'Where it stands in the queue of its visit type: origin_visit_stats.next_visit_queue_position';
comment on column scheduler_go.candidates.loaded is 'Whether it has a snapshot';
comment on column scheduler_go.candidates.successful is 'Whether its last visit succeeded';
comment on column scheduler_go.candidates.fork is 'Whether its lister knows it to be a fork; false unless candidate_build.by_fork';
comment on column scheduler_go.candidates.moment is 'When a visit of it is worth its cost; null unless its visit type is in freshness_control';

-- A claim notes the origins that it marks in one statement, with the date, instead of by a trigger for
-- each row. From that date grabs know that an origin is cooling down, without reading its rows.
-- A transaction has an id before it gets places: raise_low_water relies on that.
create sequence scheduler_go.candidate_changes_place_seq;
create table scheduler_go.candidate_changes (
  visit_type text not null,
  url        text not null,
  scheduled  timestamptz,
  place      bigint not null default case when pg_current_xact_id() is not null then nextval('scheduler_go.candidate_changes_place_seq') end
) with (
  autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
alter sequence scheduler_go.candidate_changes_place_seq owned by scheduler_go.candidate_changes.place;
create index candidate_changes_idx on scheduler_go.candidate_changes (visit_type, place);

comment on table scheduler_go.candidate_changes is 'Origins whose candidates may be out of date: a transaction changed what they are computed from';
comment on column scheduler_go.candidate_changes.scheduled is 'The claim that changed it marked it as scheduled at this moment, and changed nothing else; null: anything may have changed';
comment on column scheduler_go.candidate_changes.place is 'Order in which changes were noted, and in which those of a visit type are drained: a mark of a claim before what changed the origin after it';

create table scheduler_go.candidate_groups (
  visit_type     text primary key,
  without_update bigint not null,
  with_update    bigint not null
) with (fillfactor = 50);

comment on table scheduler_go.candidate_groups is 'How many candidates there are of each visit type, counted as they change';
comment on column scheduler_go.candidate_groups.without_update is 'How many of them have a lister that tells no last update (group A)';
comment on column scheduler_go.candidate_groups.with_update is 'How many others there are (group B)';

-- Forks and moments are computed only in a database where a policy that needs them is
-- configured: migrate then sets by_fork or by_freshness, and has candidates built anew.
create table scheduler_go.candidate_build (
  phase            text not null check (phase in ('empty', 'rows', 'indexes', 'ready')),
  rows             bigint not null default 0,
  after_lister     uuid,
  after_url        text,
  after_visit_type text,
  only_row         boolean primary key default true check (only_row),
  by_lister        boolean not null default false,
  by_fork          boolean not null default false,
  by_freshness     boolean not null default false,
  by_cooldown boolean not null default false
);
insert into scheduler_go.candidate_build (phase) values ('empty');

comment on table scheduler_go.candidate_build is 'How far candidates is built, so that it can go on after an interruption';
comment on column scheduler_go.candidate_build.phase is 'What is to be done next. empty: start. rows: copy rows. indexes: make indexes. ready: nothing more';
comment on column scheduler_go.candidate_build.rows is 'How many candidates were copied';
comment on column scheduler_go.candidate_build.after_lister is 'Lister of the last one copied; with after_url and after_visit_type, its key';
comment on column scheduler_go.candidate_build.by_lister is 'Whether candidates have indexes by lister too, for queues that groups of listers share';
comment on column scheduler_go.candidate_build.by_fork is 'Whether candidates tell forks from originals, and have indexes for each';
comment on column scheduler_go.candidate_build.by_freshness is 'Whether candidates have moments, and an index by them';
comment on column scheduler_go.candidate_build.by_cooldown is 'Whether parked candidates have indexes by policy too, for cooldowns shorter than the default ones';

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

create function scheduler_go.lag_of(last_update timestamptz, last_successful timestamptz) returns interval
language sql stable parallel safe
as $$
select case
  when last_update > last_successful then scheduler_go.lag_behind(last_update, last_successful)
  when scheduler_go.update_ends(last_update) > last_successful then interval '0'
end
$$;
comment on function scheduler_go.lag_of(timestamptz, timestamptz) is
  'How much later than the last successful visit an origin changed; zero if the dates do not tell which came first; null if it did not change';

-- Where the configuration has cooldowns that are shorter than the default ones, parked
-- candidates have indexes in the order of each policy, too. A candidate comes in earlier only if
-- the cooldown that ends last is among the shorter ones, so each of these indexes has a part for
-- each such cooldown.
-- Seconds are exact (numeric), and those between infinite dates are no error. A far date, to which
-- no cooldown is added, is its own end (candidates_now).
create function scheduler_go.held_by(due timestamptz, last_scheduled timestamptz) returns text
language sql immutable parallel safe
as $$
select case extract(epoch from due at time zone 'UTC') - extract(epoch from last_scheduled at time zone 'UTC')
  when 0 then 'absolute'
  when 43200 then 'absolute'
  when 604800 then 'scheduled'
  else 'visited'
end
$$;
comment on function scheduler_go.held_by(timestamptz, timestamptz) is
  'Which default cooldown of a candidate ends last: absolute, scheduled, or visited (that of its last visit, which failed or found nothing)';

-- The rule, written once: what the copy holds. Cooldowns are the peer's
-- defaults; hours, so that no time zone matters. Far dates, to which no interval
-- can be added, stay as they are: they are in the future anyway. Origins that are set
-- aside are left out by a subquery of its own for each row, which the planner leaves
-- alone: the walks stay as they are.
create view scheduler_go.candidates_now as
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
comment on view scheduler_go.candidates_now is 'What the table candidates should hold, computed from the peer''s tables';

-- The triggers only note which origins changed. A single reader reads the origins later, and sees the
-- changes of all transactions: a trigger sees those of its own transaction only. The triggers on
-- listed_origins and on origin_visit_stats are two migrations, so that no transaction holds the
-- lock of one table while it waits for the other's.
--
-- Functions that run with their owner's rights look up types, operators and functions in
-- pg_catalog first and in the caller's temporary schema last, whatever the caller's path:
-- otherwise one who may write to a table could have the owner run a function of his.
-- +goose StatementBegin
create function scheduler_go.note_candidate() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  place tid;
begin
  if tg_op <> 'INSERT' then
    insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url) returning ctid into place;
  end if;
  if tg_op = 'INSERT' then
    insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning ctid into place;
  elsif tg_op = 'UPDATE' and (new.url <> old.url or new.visit_type <> old.visit_type) then
    insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning ctid into place;
  end if;
  if (place::text::point)[1] = 1 then -- the first on its page
    perform scheduler_go.bound_candidate_changes(place, 5000000, 5000);
  end if;
  return null;
end
$$;

create function scheduler_go.rebuild_candidates() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update scheduler_go.candidate_build set phase = 'empty';
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.note_candidate() is 'Notes that an origin''s candidates may be out of date';
comment on function scheduler_go.rebuild_candidates() is 'Starts the build of candidates anew after a table was emptied';

create trigger scheduler_go_candidate_set_aside after insert or delete on scheduler_go.set_aside_origins
for each row execute function scheduler_go.note_candidate();

-- Changes of candidates are bounded where no daemon of ours runs, too: beyond the limit, a writer gives
-- candidates up, as BoundChanges of our daemons does. That takes some seconds once in about a
-- million changes.
-- +goose StatementBegin
create function scheduler_go.bound_candidate_changes(place tid, max_changes bigint, every_pages bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  was text;
  most bigint := 0;
begin
  if (place::text::point)[0]::bigint % every_pages <> 0 or current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  if (select phase from scheduler_go.candidate_build) <> 'empty' then
    select count(*) into most from (select from scheduler_go.candidate_changes limit max_changes + 1) c;
    if most <= max_changes then
      return;
    end if;
  end if;
  -- Nobody builds or drains until this transaction ends.
  if not pg_try_advisory_xact_lock(hashtextextended('swh-scheduler candidates', 0)) then
    return;
  end if;
  select phase into was from scheduler_go.candidate_build for update skip locked;
  if was <> 'empty' and most > max_changes then
    update scheduler_go.candidate_build set phase = 'empty';
  elsif was is distinct from 'empty' then
    return;
  end if;
  -- The build reads later what became of the origins.
  delete from scheduler_go.candidate_changes
  where ctid = any(array(select ctid from scheduler_go.candidate_changes limit max_changes / 5));
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.bound_candidate_changes(tid, bigint, bigint) is 'Gives candidates up, and deletes a part of their changes, if there are more than a bound; it looks only for places on each of so many pages';

-- To be called by the trigger function note_candidate only.
revoke execute on function scheduler_go.bound_candidate_changes(tid, bigint, bigint), scheduler_go.note_candidate(),
  scheduler_go.rebuild_candidates() from public; -- who may execute a trigger function may attach it to a table of his own

-- +goose StatementBegin
create function scheduler_go.copy_candidates(max_candidates bigint) returns bigint
language sql
-- It walks along the key, whatever the planner's statistics say: each step is short and starts where
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

create function scheduler_go.next_candidate_change(for_visit_type text) returns text
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
select url from scheduler_go.candidate_changes
where visit_type = for_visit_type and place >= (select changes_low from scheduler_go.low_water)
order by visit_type, place limit 1
$$;
comment on function scheduler_go.next_candidate_change(text) is
  'Returns the origin whose change drain_candidates takes first. The caller holds the lock of candidates';

-- Lists the visit types with changes. It steps from one known visit type to the next, and looks for
-- others between, so that it passes no drained changes: from its first drain on, a visit type has
-- a row in candidate_groups.
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
comment on function scheduler_go.changed_visit_types() is 'Lists the visit types with changes of candidates';

create function scheduler_go.pending_changes(for_visit_type text, bound bigint) returns bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
select count(*) from (
  select from scheduler_go.candidate_changes
  where visit_type = for_visit_type and place >= (select changes_low from scheduler_go.low_water)
  limit bound) c
$$;
comment on function scheduler_go.pending_changes(text, bigint) is 'Counts the changes of a visit type that are not drained, up to a bound';

-- It updates candidates in their physical order: fewer pages are read, changed and logged.
-- +goose StatementBegin
create function scheduler_go.drain_candidates(for_visit_type text, max_changes bigint) returns bigint
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
comment on function scheduler_go.drain_candidates(text, bigint) is
  'Takes some changes of a visit type and brings the candidates of their origins up to date; returns how many changes it took. It is one statement with one snapshot, so that a change is seen together with what it changed. The caller holds the lock of candidates';

create function scheduler_go.unpark_candidates(max_candidates bigint) returns bigint
language sql
set enable_seqscan = off set enable_sort = off set jit = off
as $$
with unparked as (
  update scheduler_go.candidates set parked = false
  where ctid = any(array(
    select c.ctid
    from scheduler_go.candidate_groups g
    cross join lateral (
      select ctid from scheduler_go.candidates
      where visit_type = g.visit_type and parked and due < now()
      order by due
      limit max_candidates
    ) c
    limit max_candidates))
  returning visit_type
)
select count(*) from unparked
$$;
comment on function scheduler_go.unpark_candidates(bigint) is
  'Puts candidates that are due by now into the indexes of the policies; returns how many. The caller holds the lock of candidates';

-- Candidates are compared with the Python scheduler's tables, some pages at a time: triggers
-- miss what is written while they are off (a restore, a logical replica).
create function scheduler_go.check_candidates(first_page bigint, end_page bigint) returns bigint
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
create function scheduler_go.check_listed_origins(first_page bigint, end_page bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_sort = off set jit = off
as $$
with missing as materialized (
  select n.visit_type, n.url
  from public.listed_origins n
  where n.ctid >= format('(%s,0)', first_page)::tid and n.ctid < format('(%s,0)', end_page)::tid
    and n.enabled
    and 0 = (select count(*) from (
      select from scheduler_go.candidates c
      where c.url = n.url and c.visit_type = n.visit_type and c.lister_id = n.lister_id limit 1) c)
    and 0 = (select count(*) from scheduler_go.set_aside_origins s
      where s.lister_id = n.lister_id and s.url = n.url and s.visit_type = n.visit_type)
), noted as (
  insert into scheduler_go.candidate_changes (visit_type, url)
  select distinct visit_type, url from missing
  where (visit_type, url) not in (select p.visit_type, p.url from scheduler_go.candidate_changes p)
  returning true
)
select count(*) from noted
$$;
comment on function scheduler_go.check_candidates(bigint, bigint) is
  'Notes the candidates on some pages that differ from what they should be, and that are not noted yet; returns how many origins that were';
comment on function scheduler_go.check_listed_origins(bigint, bigint) is
  'Notes the origins on some pages of listed_origins that lack a candidate, and that are not noted yet; returns how many that were';
