-- PutOffMessages lists, by run, the messages that the broker refused and that
-- wait in the outbox to be tried again.
-- name: PutOffMessages :many
select o.task_id::text as backend_id, o.attempts, coalesce(o.last_error, '')::text as reason, o.not_before
from scheduler_go.outbox o
where o.attempts > 0 and o.task_id = any(@backend_ids::uuid[]);
