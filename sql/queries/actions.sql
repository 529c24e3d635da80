-- Changes that people make to tasks and graphs by the dashboard (db.ActionStore).

-- BeginAction records an action on the tasks, or the graphs, that exist now.
-- name: BeginAction :one
insert into scheduler_go.actions (who, address, action, filter, state, below, place)
select @who, @address, @action, @filter, @state, newest.id + 1, newest.id + 1
from (select coalesce(case when @of_tasks::boolean then (select max(id) from task) else (select max(id) from scheduler_go.graphs) end, 0) as id) newest
returning *;

-- NextAction locks the open action whose next step has waited longest, of those that no other process has
-- locked. After a failed step an action waits until its retry.
-- name: NextAction :many
select * from scheduler_go.actions where state in ('counting', 'running') and again <= now()
order by again, id limit 1 for update skip locked;

-- StepAction records the progress of a step.
-- name: StepAction :one
update scheduler_go.actions
set place = @place, in_hand = sqlc.narg(in_hand)::bigint, matched = matched + @matched, changed = changed + @changed, state = @state, result = '', again = now(),
    ended = case when @state::text = 'done' then clock_timestamp() end
where id = @id
returning *;

-- FailAction records a failed step and the time of its retry. With the state failed it ends the action.
-- name: FailAction :exec
update scheduler_go.actions
set state = case when @state::text = 'failed' then 'failed' else state end, result = @result, again = now() + make_interval(secs => @after_seconds::double precision), ended = case when @state::text = 'failed' then now() end
where id = @id and state in ('counting', 'running');

-- ConfirmAction starts an action that waits for it.
-- name: ConfirmAction :execrows
update scheduler_go.actions set state = 'running', place = below, confirmed_by = @who where id = @id and state = 'counted';

-- CancelAction ends an open action.
-- name: CancelAction :execrows
update scheduler_go.actions set state = 'cancelled', cancelled_by = @who, ended = now()
where id = @id and state in ('counting', 'counted', 'running');

-- Actions returns a page of actions, the newest first.
-- name: Actions :many
select * from scheduler_go.actions
where (@below::bigint = 0 or id < @below::bigint)
order by id desc limit @max_actions::bigint;

-- Action returns the action with the number.
-- name: Action :many
select * from scheduler_go.actions where id = @id;

-- ForgetActions deletes actions that began before the given moment.
-- name: ForgetActions :exec
delete from scheduler_go.actions where began < @before;

-- SetTaskPriority gives tasks another priority, or none.
-- name: SetTaskPriority :execrows
update task set priority = sqlc.narg(priority)::task_priority
where id = any(@ids::bigint[]) and priority is distinct from sqlc.narg(priority)::task_priority;

-- OpenActions counts the open actions.
-- name: OpenActions :one
select count(*) from scheduler_go.actions where state in ('counting', 'running');
