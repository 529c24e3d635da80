-- Runs of tasks, as other programs record them. (The listener's statements are in outcomes.sql.)

-- ScheduleTaskRun records that a run was sent.
-- name: ScheduleTaskRun :one
insert into task_run (task, backend_id, scheduled, metadata, status)
values (@task, @backend_id, @scheduled, @metadata, 'scheduled')
returning *;

-- ScheduleTaskRuns records that runs were sent. They come as one JSON list: unlike arrays, its fields
-- can be null.
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

-- EndTaskRun records how a run ended; the trigger then moves its task on.
-- name: EndTaskRun :many
update task_run
set status = @status, ended = @ended, metadata = coalesce(metadata, '{}') || @metadata::jsonb
where backend_id = @backend_id::text
returning *;

-- TaskRuns are the runs of some tasks, found by these, not by a walk in the order of their ids.
-- name: TaskRuns :many
select * from task_run
where id = any(array(
  select f.id from unnest(@tasks::bigint[]) as k (task)
  cross join lateral (select s.id from task_run s where s.task = k.task offset 0) f))
order by id
limit sqlc.narg(max_runs)::bigint;

-- LastTaskRun is the last run of a task, found as TaskRuns finds them.
-- name: LastTaskRun :many
select * from task_run
where id = any(array(
  select max(f.id) from (select s.id from task_run s where s.task = @task offset 0) f));

-- OpenRuns returns the runs of some tasks that have not ended, with their messages.
-- name: OpenRuns :many
select r.task, r.backend_id::text as backend_id from unnest(@tasks::bigint[]) as k (task)
cross join lateral (select s.* from task_run s where s.task = k.task offset 0) r
where r.status in ('scheduled', 'started') and r.backend_id is not null;

-- UrgentRuns returns the priorities of the tasks of some runs, where they have one, and when these
-- tasks became ready.
-- name: UrgentRuns :many
select r.backend_id::text as backend_id, t.priority::text as priority, t.next_run
from task_run r join task t on t.id = r.task
where r.backend_id = any(@backend_ids::text[]) and t.priority is not null;

-- OfCeleryID finds the tasks whose runs have an id of Celery's, and the origin of the work in the ledger that has it (task is 0).
-- name: OfCeleryID :many
(select r.task, ''::text as url from task_run r where r.backend_id = @backend_id::text limit 10)
union
select 0, coalesce(w.url, '') from scheduler_go.work w where w.task_id = @task_id::uuid;
