-- The outbox: messages claimed and not yet confirmed by the broker, and the
-- ledger of what was confirmed lately.

-- LockQueue makes every claim for one queue wait for the others, whichever
-- daemon or machine they run on. The lock goes with the transaction.
-- name: LockQueue :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler queue ' || @queue::text, 0));

-- OutboxDepth counts the messages that are on their way to a queue.
-- name: OutboxDepth :one
select count(*) from scheduler_go.outbox where queue = @queue;

-- OutboxDue counts the messages that wait to be sent now, urgent ones or the
-- others.
-- name: OutboxDue :one
select count(*) from scheduler_go.outbox where urgent = @urgent and not_before <= @now;

-- RecentlyDelivered counts the messages that the broker confirmed on a queue
-- since a moment: those that figures as old as that don't show yet.
-- name: RecentlyDelivered :one
select coalesce(sum(messages), 0)::bigint
from scheduler_go.deliveries
where queue = @queue and delivered_at >= @since;

-- NextOutbox locks the next messages to send, urgent ones first. Rows that another
-- deliverer holds are its business and are passed over.
-- name: NextOutbox :many
select id, queue, task_id, root_id, task_name, args, kwargs, time_limit, soft_time_limit, attempts, created_at
from scheduler_go.outbox
where not_before <= @now
order by urgent desc, id
limit @max_rows
for update skip locked;

-- TakeOutbox takes all messages of a queue away, for a queue that is not a
-- broker's.
-- name: TakeOutbox :many
delete from scheduler_go.outbox where queue = @queue
returning id, task_id, kwargs;

-- name: DeleteOutbox :exec
delete from scheduler_go.outbox where id = any(@ids::bigint[]);

-- PostponeOutbox puts off a message that the broker refused.
-- name: PostponeOutbox :exec
update scheduler_go.outbox
set attempts = attempts + 1, last_error = @reason::text, not_before = @not_before
where id = @id;

-- RecordDelivery writes what one batch delivered to one queue, and forgets what
-- is too old to matter to anyone.
-- name: RecordDelivery :exec
with forgotten as (
  delete from scheduler_go.deliveries old
  where old.queue = @queue and old.delivered_at < @forget_before
)
insert into scheduler_go.deliveries (queue, delivered_at, messages)
values (@queue, @delivered_at, @messages);

-- EnqueueMessages adds messages that were made outside of the database.
-- name: EnqueueMessages :copyfrom
insert into scheduler_go.outbox (queue, task_id, root_id, task_name, args, kwargs, urgent, time_limit, soft_time_limit)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9);
