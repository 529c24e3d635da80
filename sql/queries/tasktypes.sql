-- Task types: the Celery task of each, its intervals, and its queue's limit.

-- TaskTypes lists all task types, by name.
-- name: TaskTypes :many
select * from task_type order by type;

-- TaskType returns one task type.
-- name: TaskType :one
select * from task_type where type = @type;

-- CreateTaskType adds a task type, unless one with its name exists.
-- name: CreateTaskType :exec
insert into task_type (
  type, description, backend_name, default_interval, min_interval, max_interval,
  backoff_factor, max_queue_length, num_retries, retry_delay)
values (
  @type, @description, @backend_name, @default_interval, @min_interval, @max_interval,
  @backoff_factor, @max_queue_length, @num_retries, @retry_delay)
on conflict do nothing;
