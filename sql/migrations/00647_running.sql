-- +goose Up
-- Runs of tasks that have begun and not ended, so that nobody has to look for them among all.
create table if not exists scheduler_go.running (
  run     bigint primary key,
  task    bigint not null,
  type    text not null,
  started timestamptz not null,
  worker  text not null
);

comment on table scheduler_go.running is 'Runs that have begun and had not ended when a maintenance job last looked, some seconds ago';
comment on column scheduler_go.running.run is 'task_run.id';
comment on column scheduler_go.running.task is 'task.id';
comment on column scheduler_go.running.type is 'Task type';
comment on column scheduler_go.running.started is 'task_run.started';
comment on column scheduler_go.running.worker is 'The worker that began it, as in scheduler_go.run_starts';
