-- Ready tasks, for a scheduler that sends them itself.

-- GrabReadyTasks marks the ready tasks of a type as scheduled, the longest-waiting first. Concurrent calls
-- take different tasks. It has two conditions on priorities for the reason of ReadyTasks.
-- name: GrabReadyTasks :many
with others as (
  select t.id from task t
  where not @with_priority::boolean and t.priority is null and t.type = @type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
  order by t.next_run, t.id
  limit sqlc.narg(max_tasks)::bigint
  for update skip locked
), urgent as (
  select t.id from task t
  where @with_priority::boolean and t.priority is not null and t.type = @type and t.status = 'next_run_not_scheduled' and t.next_run <= @now
  order by t.next_run, t.id
  limit sqlc.narg(max_tasks)::bigint
  for update skip locked
)
update task set status = 'next_run_scheduled'
from (select id from others union all select id from urgent) ready
where task.id = ready.id
returning task.*;

-- NextReady returns the time after a moment at which the next task of a type, with or without priority,
-- becomes ready.
-- name: NextReady :many
select next_run
from task
where type = @type and status = 'next_run_not_scheduled' and next_run > @at and (priority is not null) = @with_priority::boolean
order by next_run
limit 1;
