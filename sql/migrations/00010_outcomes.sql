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
comment on column scheduler_go.run_starts.event_time is 'The worker''s clock, seconds since 1970 UTC';
comment on column scheduler_go.run_starts.worker is 'Breaks ties of event_time';
comment on column scheduler_go.run_starts.recorded is 'When the run was first heard of, by which rows are forgotten';

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
comment on column scheduler_go.run_durations.runtime is 'Seconds on the worker''s clock';
comment on column scheduler_go.run_durations.recorded is 'When the listener heard of it, by which rows are forgotten';

create table scheduler_go.rejected_events (
  id         bigint generated always as identity primary key,
  received   timestamptz not null,
  backend_id text not null,
  event      text not null,
  sqlstate   text not null,
  reason     text not null
);

comment on table scheduler_go.rejected_events is 'Events whose outcome could not be written, the newest few thousand';
comment on column scheduler_go.rejected_events.received is 'When the listener got the event';
comment on column scheduler_go.rejected_events.backend_id is 'Celery''s id of the task, task_run.backend_id';
comment on column scheduler_go.rejected_events.event is 'The outcome in words';
comment on column scheduler_go.rejected_events.sqlstate is 'PostgreSQL''s error code; empty if the event itself made no sense';
comment on column scheduler_go.rejected_events.reason is 'What is wrong with it';

-- +goose Down
drop table scheduler_go.rejected_events;
drop table scheduler_go.run_durations;
drop table scheduler_go.run_starts;
