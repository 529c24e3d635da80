-- Archiving: reading what will not run again, and deleting it.

-- RunsToArchive are runs within a time span of tasks that will not run again,
-- from a task on. A run that never started goes by when it was sent. The times
-- are texts, as callers have them.
-- name: RunsToArchive :many
select t.id as task_id, t.policy as task_policy, t.status as task_status, r.id as task_run_id,
       t.arguments, t.type, r.backend_id, r.metadata, r.scheduled, r.started, r.ended,
       r.status as task_run_status
from task t join task_run r on r.task = t.id
where (t.status = 'disabled' or (t.status = 'completed' and t.policy = 'oneshot'))
  and coalesce(r.started, r.scheduled) >= (@after_ts::text)::timestamptz
  and coalesce(r.started, r.scheduled) < (@before_ts::text)::timestamptz
  and t.id >= @from_task
order by r.task, r.started
limit @max_runs::bigint;

-- DeleteArchived deletes runs, and those tasks that have no run left.
-- name: DeleteArchived :exec
select swh_scheduler_delete_archived_tasks(@tasks::bigint[], @runs::bigint[]);
