-- +goose Up
-- A time-out in the last lane is final, unless the lane's configuration says otherwise.
alter table scheduler_go.work add column retried boolean not null default false;
comment on column scheduler_go.work.retried is 'Whether the run of a task is tried again if it times out in the last lane';
