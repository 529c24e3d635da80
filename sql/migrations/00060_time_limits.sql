-- +goose Up
alter table scheduler_go.outbox
  add column time_limit      double precision check (time_limit > 0 and time_limit < 1e9),
  add column soft_time_limit double precision check (soft_time_limit > 0 and soft_time_limit < 1e9),
  add column root_id         uuid;

comment on column scheduler_go.outbox.time_limit is 'Seconds after which the worker kills the task (Celery''s hard limit); null: the worker''s own';
comment on column scheduler_go.outbox.soft_time_limit is 'Seconds after which the worker raises SoftTimeLimitExceeded in the task; null: the worker''s own';
comment on column scheduler_go.outbox.root_id is 'Celery''s id of the first try of the same piece of work; null: this is the first';

-- +goose Down
alter table scheduler_go.outbox drop column root_id, drop column soft_time_limit, drop column time_limit;
