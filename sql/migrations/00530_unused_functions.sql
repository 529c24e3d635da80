-- +goose Up
-- Only programs that know no migration 520 call these.
drop function if exists scheduler_go.check_forgotten_graph_tasks(), scheduler_go.empty_graph(),
  scheduler_go.retry_graph_tasks(bigint, bigint, bigint);
update scheduler_go.compatible set since = 520;
