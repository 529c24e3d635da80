-- +goose Up
-- A task that was sent runs only once a worker has begun it: it may wait in a queue that no worker reads.
create or replace view scheduler_go.graph_states as
select g.graph, g.task, g.name, coalesce(t.type, '') as type, g.any_result, g.dependencies, g.deadline, g.failed_by,
       case
         when t.id is null then case when o.completed then 'completed' else coalesce(g.reason, 'failed') end
         when t.status = 'completed' then 'completed'
         when t.status = 'next_run_scheduled' then case when r.started is null then 'sent' else 'running' end
         when t.status = 'disabled' then coalesce(g.reason, 'failed')
         when t.next_run = scheduler_go.never() then 'waiting'
         else 'ready'
       end as state,
       coalesce(r.started, r.scheduled) as since
from scheduler_go.graph_tasks g
left join lateral (select t.id, t.type, t.status, t.next_run from task t where t.id = g.task offset 0) t on true
left join lateral (select o.completed from scheduler_go.graph_gone o where o.task = g.task and t.id is null offset 0) o on true
left join lateral (
  select max(r.id) as id from task_run r where r.task = g.task and t.status = 'next_run_scheduled' and r.ended is null
) last on true
left join lateral (select r.scheduled, r.started from task_run r where r.id = last.id offset 0) r on true;
comment on view scheduler_go.graph_states is 'Tasks of graphs with their state: waiting, ready (to be sent), sent (no worker has begun it), running, completed, failed, or why they never ran: dependency, deadline or cancelled; since when is of sent and running ones';
