-- +goose Up
-- Tasks that will not run again, and their runs, are archived and deleted by age. Those of a
-- graph go together, those on which an open task depends stay.
create function scheduler_go.ended_before(t public.task, before timestamptz, graph_before timestamptz) returns boolean
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
select (t.status = 'disabled' or t.status = 'completed' and t.policy = 'oneshot')
  and coalesce(
    (select max(coalesce(r.ended, r.started, r.scheduled)) from public.task_run r where r.task = t.id),
    case when t.next_run = scheduler_go.never() then graph_before else t.next_run end) < before
  and 0 = (select count(*) from (
    select from scheduler_go.graph_edges e join public.task d on d.id = e.task
    where e.depends_on = t.id and e.task <> t.id and d.status in ('next_run_not_scheduled', 'next_run_scheduled') limit 1) open)
$$;
comment on function scheduler_go.ended_before(public.task, timestamptz, timestamptz) is
  'Whether a task will not run again, nothing happened to it since a moment, and no open task depends on it. One of a graph that never ran goes by the third argument';

create function scheduler_go.archivable_tasks(first_task bigint, end_task bigint, types text[], before timestamptz[]) returns setof bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
select t.id
from public.task t
join unnest(types, before) a (type, before) on a.type = t.type
where t.id >= first_task and t.id < end_task
  and t.status in ('disabled', 'completed')
  and not exists (select from scheduler_go.graph_tasks g where g.task = t.id)
  and scheduler_go.ended_before(t, a.before, null)
order by t.id
$$;
comment on function scheduler_go.archivable_tasks(bigint, bigint, text[], timestamptz[]) is
  'Returns the tasks of some numbers and types, of no graph, that ended before the moment given for their type';

create function scheduler_go.archivable_graphs(first_graph bigint, end_graph bigint, types text[], before timestamptz[]) returns setof bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
select s.id
from scheduler_go.graphs s
where s.id >= first_graph and s.id < end_graph
  and 0 < (select count(*) from (
    select from scheduler_go.graph_tasks g join public.task t on t.id = g.task where g.graph = s.id limit 1) living)
  and 0 = (select count(*) from (
    select from scheduler_go.graph_tasks g
    join public.task t on t.id = g.task
    left join unnest(types, before) a (type, before) on a.type = t.type
    where g.graph = s.id
      and (t.status in ('next_run_not_scheduled', 'next_run_scheduled')
        or not coalesce(scheduler_go.ended_before(t, a.before, greatest(s.submitted, s.cancelled)), false))
    limit 1) kept)
order by s.id
$$;
comment on function scheduler_go.archivable_graphs(bigint, bigint, text[], timestamptz[]) is
  'Returns the graphs of some numbers all of whose tasks ended before the moment given for their type';

-- One statement deletes runs and tasks together and returns what it deleted. A task that is open again, or
-- that another transaction has locked, stays.
create function scheduler_go.archive_tasks(tasks bigint[]) returns table (type text, runs bigint, line text)
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
with ended as materialized (
  select t.* from public.task t
  where t.id = any(tasks) and (t.status = 'disabled' or t.status = 'completed' and t.policy = 'oneshot')
  order by t.id
  for update skip locked
), runs as (
  delete from public.task_run r using ended where r.task = ended.id returning r.*
), gone as (
  delete from public.task t using ended where t.id = ended.id
)
select e.type, r.runs, (to_jsonb(e) || jsonb_build_object('runs', r.list))::text
from ended e
cross join lateral (
  select count(*) as runs, coalesce(jsonb_agg(to_jsonb(r) - 'task' order by r.id), '[]') as list from runs r where r.task = e.id
) r
order by e.id
$$;
comment on function scheduler_go.archive_tasks(bigint[]) is
  'Deletes tasks that have ended, with their runs, and returns them as JSON';
