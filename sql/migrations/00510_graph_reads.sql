-- +goose Up
-- What is read of a graph is read by its tasks, however many others there are: offset 0 keeps the
-- planner from reading the whole of task for a graph of some hundred tasks.
create or replace view scheduler_go.graph_states as
select g.graph, g.task, g.name, coalesce(t.type, '') as type, g.any_result, g.dependencies, g.deadline, g.failed_by,
       case
         when t.id is null then case when o.completed then 'completed' else coalesce(g.reason, 'failed') end
         when t.status = 'completed' then 'completed'
         when t.status = 'next_run_scheduled' then 'running'
         when t.status = 'disabled' then coalesce(g.reason, 'failed')
         when t.next_run = scheduler_go.never() then 'waiting'
         else 'ready'
       end as state
from scheduler_go.graph_tasks g
left join lateral (select t.id, t.type, t.status, t.next_run from task t where t.id = g.task offset 0) t on true
left join lateral (select o.completed from scheduler_go.graph_gone o where o.task = g.task and t.id is null offset 0) o on true;

-- The last runs of a type are found without those of others.
create index run_durations_type_idx on scheduler_go.run_durations (type, recorded);
