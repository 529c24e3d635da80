-- +goose Up
-- Tasks and origins that cannot be sent as they are. Claims pass them by until they
-- change, and for a day at most; what else there is goes on.
create table scheduler_go.set_aside_tasks (
  task      bigint primary key,
  arguments text not null,
  reason    text not null,
  since     timestamptz not null default now(),
  until     timestamptz not null default now() + interval '24 hours',
  told      boolean not null default false
);
create index set_aside_tasks_untold_idx on scheduler_go.set_aside_tasks (task) where not told;

create table scheduler_go.set_aside_origins (
  lister_id  uuid not null,
  url        text not null,
  visit_type text not null,
  content    text not null,
  reason     text not null,
  since      timestamptz not null default now(),
  until      timestamptz not null default now() + interval '24 hours',
  told       boolean not null default false,
  primary key (lister_id, url, visit_type)
);
create index set_aside_origins_untold_idx on scheduler_go.set_aside_origins (url) where not told;

comment on table scheduler_go.set_aside_tasks is 'Tasks that no claim takes, as they cannot be sent as they are';
comment on column scheduler_go.set_aside_tasks.task is 'task.id';
comment on column scheduler_go.set_aside_tasks.arguments is 'MD5 of its arguments; if they change, it is tried again';
comment on column scheduler_go.set_aside_tasks.reason is 'What is wrong with it, in words';
comment on column scheduler_go.set_aside_tasks.until is 'When it is tried again, changed or not';
comment on column scheduler_go.set_aside_tasks.told is 'Whether the log has it';
comment on table scheduler_go.set_aside_origins is 'Listed origins that no claim takes, as they cannot be sent as they are; candidates lack them';
comment on column scheduler_go.set_aside_origins.content is 'scheduler_go.origin_content of it; if that changes, it is tried again';
comment on column scheduler_go.set_aside_origins.reason is 'What is wrong with it, in words';
comment on column scheduler_go.set_aside_origins.until is 'When it is tried again, changed or not';
comment on column scheduler_go.set_aside_origins.told is 'Whether the log has it';

create function scheduler_go.odd_task(arguments jsonb) returns text
language sql immutable parallel safe as $$
select case
  when jsonb_typeof(arguments) <> 'object' then 'its arguments are a JSON ' || jsonb_typeof(arguments) || ', not an object with args and kwargs'
  when jsonb_typeof(arguments -> 'args') not in ('array', 'null') and arguments -> 'args' <> '{}' then 'its args are a JSON ' || jsonb_typeof(arguments -> 'args') || ', not an array'
  when jsonb_typeof(arguments -> 'kwargs') not in ('object', 'null') and arguments -> 'kwargs' <> '[]' then 'its kwargs are a JSON ' || jsonb_typeof(arguments -> 'kwargs') || ', not an object'
end
$$;

create function scheduler_go.odd_origin(extra_loader_arguments jsonb, first_seen timestamptz, last_seen timestamptz, last_update timestamptz) returns text
language sql immutable parallel safe as $$
select case
  when jsonb_typeof(extra_loader_arguments) <> 'object' then 'its extra_loader_arguments are a JSON ' || jsonb_typeof(extra_loader_arguments) || ', not an object'
  when not isfinite(last_update) then 'its last_update is infinite'
  when not isfinite(first_seen) then 'its first_seen is infinite'
  when not isfinite(last_seen) then 'its last_seen is infinite'
end
$$;

-- Not when it was last seen, which changes with each listing.
create function scheduler_go.origin_content(extra_loader_arguments jsonb, first_seen timestamptz, last_seen timestamptz, last_update timestamptz) returns text
language sql immutable parallel safe as $$
select md5(concat_ws(' ', extract(epoch from first_seen), isfinite(last_seen), coalesce(extract(epoch from last_update)::text, 'null'), extra_loader_arguments::text))
$$;

-- The walk of drain_candidates to the next change.
create function scheduler_go.next_candidate_change(for_visit_type text) returns text
language sql
set enable_seqscan = off set enable_bitmapscan = off
as $$ select url from scheduler_go.candidate_changes where visit_type = for_visit_type limit 1 $$;

comment on function scheduler_go.odd_task(jsonb) is
  'Why a task cannot be sent, or null. Where the Python scheduler sends empty arguments for others, so do we';
comment on function scheduler_go.odd_origin(jsonb, timestamptz, timestamptz, timestamptz) is
  'Why an origin cannot be sent, or null';
comment on function scheduler_go.origin_content(jsonb, timestamptz, timestamptz, timestamptz) is
  'Hash of that of an origin by which it can be odd';
comment on function scheduler_go.next_candidate_change(text) is
  'Returns the origin whose change drain_candidates takes first. The caller holds the lock of candidates';

-- The rule of 00140_candidates.sql, without the origins that are set aside. A subquery
-- of its own for each row, which the planner leaves alone: the walks stay as they are.
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
where lo.enabled
  and (select true from scheduler_go.set_aside_origins s
       where s.lister_id = lo.lister_id and s.url = lo.url and s.visit_type = lo.visit_type) is null;

create trigger scheduler_go_candidate_set_aside after insert or delete on scheduler_go.set_aside_origins
for each row execute function scheduler_go.note_candidate();
