-- +goose Up
-- What failed of late, one by one.
create table if not exists scheduler_go.failures (
  id         bigint generated always as identity primary key,
  at         timestamptz not null,
  type       text not null,
  exception  text not null,
  message    text not null,
  worker     text not null,
  task       bigint,
  visit_type text,
  url        text
);
create index if not exists failures_type_idx on scheduler_go.failures (type, exception, id);
create index if not exists failures_url_idx on scheduler_go.failures (hashtextextended(url, 0), id) where url is not null;

comment on table scheduler_go.failures is 'Runs of tasks, and visits of groups, lanes and hosters, that failed: the last 10,000 of each type and class of exception, of 30 days, 1,000,000 of all';
comment on column scheduler_go.failures.at is 'When a listener got the event';
comment on column scheduler_go.failures.type is 'Task type';
comment on column scheduler_go.failures.exception is 'Class of the exception, as in scheduler_go.ended; empty if there was none';
comment on column scheduler_go.failures.message is 'The last line of the traceback, or the error that the task returned; 500 characters at most';
comment on column scheduler_go.failures.worker is 'Name of the worker; empty if the event has none';
comment on column scheduler_go.failures.task is 'task.id, if it was a run of a task';
comment on column scheduler_go.failures.visit_type is 'Visit type, if it is a loader''s';
comment on column scheduler_go.failures.url is 'The origin, if it is a loader''s; 2,000 characters at most';
