-- +goose Up
-- Only programs that know no migration 570 call this one.
drop function if exists scheduler_go.settle_graph_tasks(bigint, bigint, timestamptz);
update scheduler_go.compatible set since = 570;
