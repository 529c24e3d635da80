-- +goose Up
-- +goose StatementBegin
create function scheduler_go.turn(priority public.task_priority, next_run timestamptz, ageing double precision) returns timestamptz
language sql stable
as $$
  select next_run + make_interval(secs => case priority when 'high' then 0 when 'normal' then ageing else 2 * ageing end)
$$;
-- +goose StatementEnd
comment on function scheduler_go.turn(public.task_priority, timestamptz, double precision) is
  'By what tasks with priority are claimed, the smallest first: a task that is ready counts as one priority higher for each time (in seconds) that it waits';
