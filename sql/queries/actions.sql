-- What people do to tasks and graphs by the dashboard (db.ActionStore).

-- BeginAction notes an action on the tasks, or the graphs, that there are by now.
-- name: BeginAction :one
insert into scheduler_go.actions (who, action, filter, state, below, place)
select @who, @action, @filter, @state, newest.id + 1, newest.id + 1
from (select coalesce(case when @of_tasks::boolean then (select max(id) from task) else (select max(id) from scheduler_go.graphs) end, 0) as id) newest
returning *;

-- NextAction locks an open action that no other process takes a step of: that which has waited
-- longest, so that all go on. One whose last step failed waits for a while.
-- name: NextAction :many
select * from scheduler_go.actions where state in ('counting', 'running') and again <= now()
order by again, id limit 1 for update skip locked;

-- StepAction notes what a step of an action did.
-- name: StepAction :one
update scheduler_go.actions
set place = @place, in_hand = sqlc.narg(in_hand)::bigint, matched = matched + @matched, changed = changed + @changed, state = @state, result = '', again = now(),
    ended = case when @state::text = 'done' then clock_timestamp() end
where id = @id
returning *;

-- FailAction notes that a step failed, and when it is tried again; with the state failed that none follows.
-- name: FailAction :exec
update scheduler_go.actions
set state = case when @state::text = 'failed' then 'failed' else state end, result = @result, again = now() + make_interval(secs => @after_seconds::double precision), ended = case when @state::text = 'failed' then now() end
where id = @id and state in ('counting', 'running');

-- ConfirmAction has what was counted done.
-- name: ConfirmAction :execrows
update scheduler_go.actions set state = 'running', place = below where id = @id and state = 'counted';

-- CancelAction ends an action where it is.
-- name: CancelAction :execrows
update scheduler_go.actions set state = 'cancelled', ended = now()
where id = @id and state in ('counting', 'counted', 'running');

-- Actions is a page of actions, the newest first.
-- name: Actions :many
select * from scheduler_go.actions
where (@below::bigint = 0 or id < @below::bigint)
order by id desc limit @max_actions::bigint;

-- Action is one of them.
-- name: Action :many
select * from scheduler_go.actions where id = @id;

-- ForgetActions deletes those that are older.
-- name: ForgetActions :exec
delete from scheduler_go.actions where began < @before;

-- SetTaskPriority gives tasks another priority, or none.
-- name: SetTaskPriority :execrows
update task set priority = sqlc.narg(priority)::task_priority
where id = any(@ids::bigint[]) and priority is distinct from sqlc.narg(priority)::task_priority;

-- OpenActions counts the actions of which steps are to be taken.
-- name: OpenActions :one
select count(*) from scheduler_go.actions where state in ('counting', 'running');
