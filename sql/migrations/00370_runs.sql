-- +goose Up
-- Runs of tasks: what workers' events reported, and the trigger that wakes the priority runner.
create table scheduler_go.run_starts (
  run        bigint primary key,
  event_time double precision not null,
  worker     text collate "C" not null,
  recorded   timestamptz not null
);
create index run_starts_recorded_idx on scheduler_go.run_starts using brin (recorded);

comment on table scheduler_go.run_starts is 'The newest start heard of each run, so that an older one that comes late is known as such';
comment on column scheduler_go.run_starts.run is 'task_run.id; no foreign key, which would put triggers on the peer''s table';
comment on column scheduler_go.run_starts.event_time is 'When it started, by the worker''s clock, in seconds since 1970 UTC';
comment on column scheduler_go.run_starts.worker is 'Name of the worker; of two starts at the same time, the greater name counts as the newer';
comment on column scheduler_go.run_starts.recorded is 'When the run was first heard of; the row is deleted some days after';

create table scheduler_go.run_durations (
  run      bigint primary key,
  type     text not null,
  runtime  double precision not null,
  recorded timestamptz not null
);
create index run_durations_recorded_idx on scheduler_go.run_durations using brin (recorded);
-- The last runs of a type are found without those of others.
create index run_durations_type_idx on scheduler_go.run_durations (type, recorded);

comment on table scheduler_go.run_durations is 'How long the successful runs of the last weeks took';
comment on column scheduler_go.run_durations.run is 'task_run.id';
comment on column scheduler_go.run_durations.type is 'Task type, kept here because runs are archived and deleted';
comment on column scheduler_go.run_durations.runtime is 'Seconds, by the worker''s clock';
comment on column scheduler_go.run_durations.recorded is 'When the listener heard of it; the row is deleted some weeks after';

create table scheduler_go.ended (
  minute    timestamptz not null,
  source    text not null,
  type      text not null,
  status    text not null,
  exception text not null,
  bucket    smallint not null,
  part      smallint not null,
  pieces    bigint not null,
  seconds   double precision not null,
  primary key (minute, source, type, status, exception, bucket, part)
);

comment on table scheduler_go.ended is 'What ended in each minute of the last hours, by type, for rates and runtimes';
comment on column scheduler_go.ended.source is 'Who told of it: worker (events of runs, and of visits of groups and lanes; by task type) or journal (visits; by visit type)';
comment on column scheduler_go.ended.exception is 'The class of the exception by which it failed; empty for none';
comment on column scheduler_go.ended.bucket is 'How long it took, by powers of 1.25 seconds; -1 if that is not known';
comment on column scheduler_go.ended.part is 'Of several writers at the same time each writes rows of its own';
comment on column scheduler_go.ended.seconds is 'How long all of it took';

create table scheduler_go.rejected_events (
  id         bigint generated always as identity primary key,
  received   timestamptz not null,
  backend_id text not null,
  event      text not null,
  sqlstate   text not null,
  reason     text not null
);

comment on table scheduler_go.rejected_events is 'Events whose outcome could not be written, and messages that could not be read; the newest few thousand are kept';
comment on column scheduler_go.rejected_events.received is 'When the listener got the event';
comment on column scheduler_go.rejected_events.backend_id is 'Celery''s id of the task, task_run.backend_id; empty: a whole message';
comment on column scheduler_go.rejected_events.event is 'The outcome in words, or how the event or the message begins';
comment on column scheduler_go.rejected_events.sqlstate is 'PostgreSQL''s error code; empty: the event itself made no sense';
comment on column scheduler_go.rejected_events.reason is 'What is wrong with it';

create function scheduler_go.turn(priority public.task_priority, next_run timestamptz, ageing double precision) returns timestamptz
language sql stable
as $$
  select next_run + make_interval(secs => case priority when 'high' then 0 when 'normal' then ageing else 2 * ageing end)
$$;
comment on function scheduler_go.turn(public.task_priority, timestamptz, double precision) is
  'By what tasks with priority are claimed, the smallest first: a task that is ready counts as one priority higher for each time (in seconds) that it waits';

-- +goose StatementBegin
create function scheduler_go.notify_priority_task() returns trigger
language plpgsql as $$
begin
  notify scheduler_go_priority_task;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.notify_priority_task() is 'Wakes the priority runner';

create trigger scheduler_go_priority_task
after insert or update of status, next_run, priority on task
for each row when (new.priority is not null and new.status = 'next_run_not_scheduled')
execute function scheduler_go.notify_priority_task();
