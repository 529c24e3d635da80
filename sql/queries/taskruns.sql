-- Runs of tasks, as other programs record them. (outcomes.sql has the listener's statements.)

-- ScheduleTaskRun records that a run was sent.
-- name: ScheduleTaskRun :one
insert into task_run (task, backend_id, scheduled, metadata, status)
values (@task, @backend_id, @scheduled, @metadata, 'scheduled')
returning *;

-- ScheduleTaskRuns records that runs were sent. They come as one JSON list, as its fields, unlike array
-- elements, can be null.
-- name: ScheduleTaskRuns :exec
insert into task_run (task, backend_id, scheduled, metadata, status)
select task, backend_id, scheduled, metadata, 'scheduled'
from json_to_recordset(@runs::json) as new (
  task bigint, backend_id text, scheduled timestamptz, metadata jsonb);

-- StartTaskRun records that a worker started a run.
-- name: StartTaskRun :many
update task_run
set status = 'started', started = @started, metadata = coalesce(metadata, '{}') || @metadata::jsonb
where backend_id = @backend_id::text
returning *;

-- EndTaskRun records the end of a run; the trigger then moves its task on.
-- name: EndTaskRun :many
update task_run
set status = @status, ended = @ended, metadata = coalesce(metadata, '{}') || @metadata::jsonb
where backend_id = @backend_id::text
returning *;

-- TaskRuns returns the runs of the tasks. It finds them by task, not by a scan in the order of run ids.
-- name: TaskRuns :many
select * from task_run
where id = any(array(
  select f.id from unnest(@tasks::bigint[]) as k (task)
  cross join lateral (select s.id from task_run s where s.task = k.task offset 0) f))
order by id
limit sqlc.narg(max_runs)::bigint;

-- LastTaskRun returns the last run of a task, found as by TaskRuns.
-- name: LastTaskRun :many
select * from task_run
where id = any(array(
  select max(f.id) from (select s.id from task_run s where s.task = @task offset 0) f));

-- OpenRuns returns the runs of the tasks that have not ended, with their messages.
-- name: OpenRuns :many
select r.task, r.backend_id::text as backend_id from unnest(@tasks::bigint[]) as k (task)
cross join lateral (select s.* from task_run s where s.task = k.task offset 0) r
where r.status in ('scheduled', 'started') and r.backend_id is not null;

-- UrgentRuns returns the priorities of the runs' tasks that have one, and when these tasks became ready.
-- name: UrgentRuns :many
select r.backend_id::text as backend_id, t.priority::text as priority, t.next_run
from task_run r join task t on t.id = r.task
where r.backend_id = any(@backend_ids::text[]) and t.priority is not null;

-- OfCeleryID finds the tasks whose runs have the Celery task id, and the origin of the ledger's work with
-- that id (task is 0).
-- name: OfCeleryID :many
(select r.task, ''::text as url from task_run r where r.backend_id = @backend_id::text limit 10)
union
select 0, coalesce(w.url, '') from scheduler_go.work w where w.task_id = @task_id::uuid;
