-- Ready tasks, for a scheduler that sends them itself.

-- GrabReadyTasks marks the ready tasks of a type as scheduled, the longest-waiting first. Concurrent calls
-- take different tasks.
-- name: GrabReadyTasks :many
with ready as (
  select task.id from task
  where task.type = @type and task.status = 'next_run_not_scheduled' and task.next_run <= @now
    and (task.priority is not null) = @with_priority::boolean
  order by task.next_run, task.id
  limit sqlc.narg(max_tasks)::bigint
  for update skip locked
)
update task set status = 'next_run_scheduled' from ready
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
