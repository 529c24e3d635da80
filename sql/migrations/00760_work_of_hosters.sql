-- +goose Up
-- Claims read the visits in flight of the hosters that have a limit now, not all.
drop index scheduler_go.work_hosters_idx;
create index work_hosters_idx on scheduler_go.work using gin (hosters) where hosters is not null and state <> 'settled';
