-- +goose Up
create table scheduler_go.configured_lanes (
  lane_set text primary key,
  seen     timestamptz not null
) with (fillfactor = 50);

comment on table scheduler_go.configured_lanes is 'Lane sets that processes have in their configuration';
comment on column scheduler_go.configured_lanes.seen is 'When a process last said so, by the database''s clock; each does every minute';
