-- +goose Up
-- Sorts are off, so only the index of deadlines helps to find the first ones. By the statistics of a table without
-- deadlines, the index of what tasks watch may cost less, and would be read as a whole for each step of a drain.
-- +goose StatementBegin
create or replace function scheduler_go.check_graph_deadlines(max_tasks bigint, at timestamptz) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off set enable_sort = off set jit = off
as $$
with overdue as materialized (
  select g.task, g.deadline from scheduler_go.graph_tasks g
  where g.watch is not null and g.deadline <= at
  order by g.deadline
), checks as (
  insert into scheduler_go.graph_checks (task)
  select o.task from overdue o
  where not exists (
    select from scheduler_go.graph_checks c where c.task = o.task and c.place >= (select graphs_low from scheduler_go.low_water))
  order by o.deadline limit max_tasks
  returning task
)
select count(*) from checks
$$;
-- +goose StatementEnd
