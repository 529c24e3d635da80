-- +goose Up
-- Only the keeper of lanes reads all that was sent, once a minute.
drop index scheduler_go.lane_work_sent_idx;

-- +goose Down
create index lane_work_sent_idx on scheduler_go.lane_work (line, lane, claimed) where sent;
