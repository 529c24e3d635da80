-- +goose Up
-- A retry of a graph gives each task the retries that it was submitted with. Tasks from before this migration get as
-- many as their type says.
alter table scheduler_go.graph_tasks add column if not exists retries bigint;
comment on column scheduler_go.graph_tasks.retries is 'Number of retries that it was submitted with; null: as many as its type says';

create or replace function scheduler_go.reopen_graph_tasks(in_graph bigint, after bigint, max_tasks bigint, at timestamptz) returns setof bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
with failed as materialized (
  select t.id, coalesce(g.retries, tt.num_retries, 0) as retries
  from scheduler_go.graph_tasks g
  join public.task t on t.id = g.task
  join public.task_type tt on tt.type = t.type
  where g.graph = in_graph and g.task > after and t.status = 'disabled'
  order by g.task limit max_tasks
  for no key update of t
), undated as (
  update scheduler_go.graph_tasks g set deadline = null
  from failed where g.task = failed.id and g.deadline <= at
), checks as (
  insert into scheduler_go.graph_checks (task) select id from failed
)
update public.task t
set status = 'next_run_not_scheduled', next_run = scheduler_go.never(), retries_left = failed.retries
from failed where t.id = failed.id
returning t.id
$$;
