-- +goose Up
-- What the visit policies select and order by lies in two tables of the peer's,
-- so that finding the next origins means reading both. Here is a copy of it, one
-- row an enabled listed origin, with an index in the order of each policy.

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
  case when ovs.last_snapshot is not null and lo.last_update > ovs.last_successful then
    case when isfinite(lo.last_update) and isfinite(ovs.last_successful)
    then lo.last_update - ovs.last_successful
    else interval '1000000 years' -- more than any other
    end
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

comment on view scheduler_go.candidates_now is 'What the table candidates should hold, read from the peer''s tables';
comment on table scheduler_go.candidates is 'Enabled listed origins with what visit policies select and order by; those named in candidate_changes may be out of date';
comment on column scheduler_go.candidates.due is 'May be visited after that, by the default cooldowns';
comment on column scheduler_go.candidates.parked is 'Kept out of the indexes of the policies, as it was not yet due when last looked at';
comment on column scheduler_go.candidates.lag is 'How much later than the last successful visit the origin changed';
comment on column scheduler_go.candidates.queue_position is 'Visit target';
comment on column scheduler_go.candidates.loaded is 'Has a snapshot';
comment on column scheduler_go.candidates.successful is 'The last visit succeeded';

create table scheduler_go.candidate_changes (
  visit_type text not null,
  url        text not null
) with (
  autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
create index candidate_changes_idx on scheduler_go.candidate_changes (visit_type);

comment on table scheduler_go.candidate_changes is 'Origins whose candidates may be out of date, since a transaction changed what they are made of';

create table scheduler_go.candidate_groups (
  visit_type     text primary key,
  without_update bigint not null,
  with_update    bigint not null
) with (fillfactor = 50);

comment on table scheduler_go.candidate_groups is 'How many candidates there are, counted as they change';
comment on column scheduler_go.candidate_groups.without_update is 'Those whose lister tells no last update (group A)';
comment on column scheduler_go.candidate_groups.with_update is 'The others (group B)';

create table scheduler_go.candidate_build (
  phase            text not null check (phase in ('empty', 'rows', 'indexes', 'ready')),
  rows             bigint not null default 0,
  after_lister     uuid,
  after_url        text,
  after_visit_type text,
  only_row         boolean primary key default true check (only_row)
);
insert into scheduler_go.candidate_build (phase) values ('empty');

comment on table scheduler_go.candidate_build is 'How far candidates is built, so that it can go on after an interruption';
comment on column scheduler_go.candidate_build.phase is 'What there is to do: start, copy rows, make indexes, or nothing more';
comment on column scheduler_go.candidate_build.rows is 'Candidates copied';
comment on column scheduler_go.candidate_build.after_lister is 'Key of the last of them, with the next two';

-- The triggers only note which origins changed. What became of them is read
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
comment on function scheduler_go.rebuild_candidates() is 'Has candidates built anew after a table was emptied';

create trigger scheduler_go_candidate_insert after insert on listed_origins
for each row when (new.enabled)
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_update after update on listed_origins
for each row when (
  (old.enabled or new.enabled)
  and (old.lister_id, old.url, old.visit_type, old.enabled, old.first_seen, old.last_update)
    is distinct from (new.lister_id, new.url, new.visit_type, new.enabled, new.first_seen, new.last_update))
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_delete after delete on listed_origins
for each row when (old.enabled)
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_truncate after truncate on listed_origins
execute function scheduler_go.rebuild_candidates();

create trigger scheduler_go_candidate_insert after insert on origin_visit_stats
for each row execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_update after update on origin_visit_stats
for each row when (
  (old.url, old.visit_type, old.last_successful, old.last_visit, old.last_visit_status,
   old.last_scheduled, old.last_snapshot is null, old.next_visit_queue_position)
  is distinct from
  (new.url, new.visit_type, new.last_successful, new.last_visit, new.last_visit_status,
   new.last_scheduled, new.last_snapshot is null, new.next_visit_queue_position))
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_delete after delete on origin_visit_stats
for each row execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_truncate after truncate on origin_visit_stats
execute function scheduler_go.rebuild_candidates();

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
  'Copies some more rows into candidates while it is built; how many it has now, or null if the build has to start anew. The caller holds the lock of candidates';
comment on function scheduler_go.drain_candidates(text, bigint) is
  'Takes some changes of a visit type and brings the candidates of their origins up to date; how many it took. One snapshot: a change is seen together with what it changed. The caller holds the lock of candidates';
comment on function scheduler_go.unpark_candidates(bigint) is
  'Puts candidates that are due by now into the indexes of the policies; how many. The caller holds the lock of candidates';

-- +goose Down
drop trigger scheduler_go_candidate_insert on listed_origins;
drop trigger scheduler_go_candidate_update on listed_origins;
drop trigger scheduler_go_candidate_delete on listed_origins;
drop trigger scheduler_go_candidate_truncate on listed_origins;
drop trigger scheduler_go_candidate_insert on origin_visit_stats;
drop trigger scheduler_go_candidate_update on origin_visit_stats;
drop trigger scheduler_go_candidate_delete on origin_visit_stats;
drop trigger scheduler_go_candidate_truncate on origin_visit_stats;
drop function scheduler_go.copy_candidates(bigint);
drop function scheduler_go.unpark_candidates(bigint);
drop function scheduler_go.drain_candidates(text, bigint);
drop function scheduler_go.note_candidate();
drop function scheduler_go.rebuild_candidates();
drop table scheduler_go.candidate_build;
drop table scheduler_go.candidate_groups;
drop table scheduler_go.candidate_changes;
drop table scheduler_go.candidates;
drop view scheduler_go.candidates_now;
