-- +goose Up
-- Tasks and origins that cannot be sent as they are. Claims skip them until they change, for a day at
-- most, and take others.
create table scheduler_go.set_aside_tasks (
  task      bigint primary key,
  arguments text not null,
  reason    text not null,
  since     timestamptz not null default now(),
  until     timestamptz not null default now() + interval '24 hours',
  told      boolean not null default false
);
create index set_aside_tasks_untold_idx on scheduler_go.set_aside_tasks (task) where not told;

comment on table scheduler_go.set_aside_tasks is 'Tasks that no claim takes, as they cannot be sent as they are';
comment on column scheduler_go.set_aside_tasks.task is 'task.id';
comment on column scheduler_go.set_aside_tasks.arguments is 'MD5 of its arguments; if they change, it is tried again';
comment on column scheduler_go.set_aside_tasks.reason is 'What is wrong with it, in words';
comment on column scheduler_go.set_aside_tasks.until is 'When it is tried again, changed or not';
comment on column scheduler_go.set_aside_tasks.told is 'Whether the log has it';

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
comment on function scheduler_go.odd_task(jsonb) is
  'Why a task cannot be sent, or null. Where the Python scheduler sends empty arguments for others, so do we';

create function scheduler_go.odd_origin(extra_loader_arguments jsonb, first_seen timestamptz, last_seen timestamptz, last_update timestamptz) returns text
language sql immutable parallel safe as $$
select case
  when jsonb_typeof(extra_loader_arguments) <> 'object' then 'its extra_loader_arguments are a JSON ' || jsonb_typeof(extra_loader_arguments) || ', not an object'
  when not isfinite(last_update) then 'its last_update is infinite'
  when not isfinite(first_seen) then 'its first_seen is infinite'
  when not isfinite(last_seen) then 'its last_seen is infinite'
end
$$;
comment on function scheduler_go.odd_origin(jsonb, timestamptz, timestamptz, timestamptz) is
  'Why an origin cannot be sent, or null';

-- Not when it was last seen, which changes with each listing.
create function scheduler_go.origin_content(extra_loader_arguments jsonb, first_seen timestamptz, last_seen timestamptz, last_update timestamptz) returns text
language sql immutable parallel safe as $$
select md5(concat_ws(' ', extract(epoch from first_seen), isfinite(last_seen), coalesce(extract(epoch from last_update)::text, 'null'), extra_loader_arguments::text))
$$;
comment on function scheduler_go.origin_content(jsonb, timestamptz, timestamptz, timestamptz) is
  'Hash of that of an origin by which it can be odd';
