-- +goose Up
-- The look for forgotten tasks and graphs, a part at a time: it read all waiting tasks and all
-- graphs in one statement. The functions before stay for programs that know only those.

-- +goose StatementBegin
create function scheduler_go.check_graph_tasks(first_task bigint, end_task bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
with forgotten as (
  insert into scheduler_go.graph_checks (task)
  select t.id
  from scheduler_go.graph_tasks g
  join public.task t on t.id = g.task
  left join public.task w on w.id = g.watch
  where g.task >= first_task and g.task < end_task
    and t.next_run = scheduler_go.never() and t.status = 'next_run_not_scheduled'
    and (w.id is null or w.status not in ('next_run_not_scheduled', 'next_run_scheduled'))
  returning task
), gone as (
  delete from scheduler_go.graph_gone o
  where o.task >= first_task and o.task < end_task
    and not exists (select from scheduler_go.graph_edges e where e.depends_on = o.task)
    and not exists (select from scheduler_go.graph_tasks g where g.task = o.task)
)
select count(*) from forgotten
$$;

create function scheduler_go.empty_graphs(first_graph bigint, end_graph bigint) returns setof bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
select s.id from scheduler_go.graphs s
where s.id >= first_graph and s.id < end_graph
  and 0 = (select count(*) from (
    select from scheduler_go.graph_tasks g join public.task t on t.id = g.task
    where g.graph = s.id limit 1) living)
  and 0 = (select count(*) from (
    select from scheduler_go.graph_tasks g
    join scheduler_go.graph_edges e on e.depends_on = g.task
    join public.task t on t.id = e.task
    where g.graph = s.id limit 1) dependents)
order by s.id
$$;
-- +goose StatementEnd
comment on function scheduler_go.check_graph_tasks(bigint, bigint) is
  'Of the tasks of graphs of some numbers, notes for a look those that wait and whose watched dependency has ended, was deleted, or is missing, and returns how many; forgets deleted tasks on which none depends. The caller holds the lock of graphs';
comment on function scheduler_go.empty_graphs(bigint, bigint) is
  'Returns the graphs of some numbers of which no task is left, and for whose tasks none waits';
