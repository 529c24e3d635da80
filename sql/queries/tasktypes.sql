-- Task types: which Celery task runs a kind of task, how often, how many at once.

-- TaskTypes lists all task types, by name.
-- name: TaskTypes :many
select * from task_type order by type;

-- TaskType is one task type.
-- name: TaskType :one
select * from task_type where type = @type;

-- CreateTaskType adds a task type, unless one of that name exists.
-- name: CreateTaskType :exec
insert into task_type (
  type, description, backend_name, default_interval, min_interval, max_interval,
  backoff_factor, max_queue_length, num_retries, retry_delay)
values (
  @type, @description, @backend_name, @default_interval, @min_interval, @max_interval,
  @backoff_factor, @max_queue_length, @num_retries, @retry_delay)
on conflict do nothing;
