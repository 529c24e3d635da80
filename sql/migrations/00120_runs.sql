-- +goose Up
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

comment on table scheduler_go.run_durations is 'How long the successful runs of the last weeks took';
comment on column scheduler_go.run_durations.run is 'task_run.id';
comment on column scheduler_go.run_durations.type is 'Task type, kept here because runs are archived and deleted';
comment on column scheduler_go.run_durations.runtime is 'Seconds, by the worker''s clock';
comment on column scheduler_go.run_durations.recorded is 'When the listener heard of it; the row is deleted some weeks after';

create table scheduler_go.rejected_events (
  id         bigint generated always as identity primary key,
  received   timestamptz not null,
  backend_id text not null,
  event      text not null,
  sqlstate   text not null,
  reason     text not null
);

comment on table scheduler_go.rejected_events is 'Events whose outcome could not be written; the newest few thousand are kept';
comment on column scheduler_go.rejected_events.received is 'When the listener got the event';
comment on column scheduler_go.rejected_events.backend_id is 'Celery''s id of the task, task_run.backend_id';
comment on column scheduler_go.rejected_events.event is 'The outcome in words';
comment on column scheduler_go.rejected_events.sqlstate is 'PostgreSQL''s error code; empty: the event itself made no sense';
comment on column scheduler_go.rejected_events.reason is 'What is wrong with it';

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
