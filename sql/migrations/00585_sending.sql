-- +goose Up
-- Since when this program sends tasks here: runs that were sent before, by the Python runner, are
-- not given up as lost unless an operator says so.
create table if not exists scheduler_go.sending (
  with_priority boolean primary key,
  since         timestamptz not null,
  seen          timestamptz not null,
  last_run      bigint not null
);

comment on table scheduler_go.sending is 'Since when runners of this program send tasks, without another scheduler having done so meanwhile';
comment on column scheduler_go.sending.with_priority is 'Whether the tasks have a priority: these have runners of their own';
comment on column scheduler_go.sending.since is 'When the first of them began, or the first one after another scheduler had sent';
comment on column scheduler_go.sending.seen is 'When a runner of this program last noted that it runs; each minute';
comment on column scheduler_go.sending.last_run is 'The last number of task_run then';
