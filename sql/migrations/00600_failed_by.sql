-- +goose Up
-- A task that stays as it is although one of its dependencies is open again may stay so because of another one,
-- which follows from the first and is opened next. So failed_by moves to that one.

-- +goose StatementBegin
create or replace function scheduler_go.reopen_graph_task(in_task bigint, at timestamptz, out locked boolean)
language plpgsql
as $$ -- with the settings of its callers
declare
  is_disabled boolean;
  g record;
  f record;
begin
  locked := false;
  select t.status = 'disabled' into is_disabled from public.task t where t.id = in_task for no key update skip locked;
  if not found then
    locked := exists (select from public.task t where t.id = in_task);
    return;
  end if;
  select r.reason, r.deadline, s.cancelled into g
  from scheduler_go.graph_tasks r left join scheduler_go.graphs s on s.id = r.graph where r.task = in_task;
  if not found or not is_disabled or coalesce(g.reason not in ('dependency', 'skipped'), true)
    or g.deadline <= at or g.cancelled is not null then
    return;
  end if;
  select * into f from scheduler_go.graph_fate(in_task, null);
  if f.fate is distinct from g.reason then
    update public.task set status = 'next_run_not_scheduled', next_run = scheduler_go.never() where id = in_task;
    insert into scheduler_go.graph_checks (task) values (in_task);
  elsif f.fate = 'dependency' then
    update scheduler_go.graph_tasks set failed_by = f.failed_dependency
    where task = in_task and failed_by is distinct from f.failed_dependency;
  end if;
end
$$;
-- +goose StatementEnd
