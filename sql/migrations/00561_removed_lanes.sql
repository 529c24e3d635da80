-- +goose Up
-- Lane sets count as removed only after some minutes in which maintenance looked at them again and again.
alter table scheduler_go.configured_lanes add column if not exists unseen timestamptz, add column if not exists looked timestamptz;
comment on column scheduler_go.configured_lanes.unseen is 'Since when looks have found that no process has it in its configuration; null: the last one found that one has';
comment on column scheduler_go.configured_lanes.looked is 'When maintenance last looked, if it had a backlog; after a time without looks, unseen begins anew';
