-- +goose Up
-- Messages of workers can be set aside whole.

comment on table scheduler_go.rejected_events is 'Events whose outcome could not be written, and messages that could not be read; the newest few thousand are kept';
comment on column scheduler_go.rejected_events.backend_id is 'Celery''s id of the task, task_run.backend_id; empty: a whole message';
comment on column scheduler_go.rejected_events.event is 'The outcome in words, or how the event or the message begins';
