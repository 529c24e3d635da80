-- The Python scheduler's functions and its trigger at schema version 38. Its backend calls
-- them by name with positional arguments; our queries call some of them too, so
-- that both sides create and read tasks by one rule.

-- Creating tasks: fill tmp_task, then call swh_scheduler_create_tasks_from_temp.

create function swh_scheduler_mktemp_task()
  returns void language sql
as $body$
  create temporary table tmp_task (like task) on commit drop;
  -- The id comes with the insert; missing retries come from the task type.
  alter table tmp_task drop column id;
  alter table tmp_task alter column retries_left drop not null;
$body$;
comment on function swh_scheduler_mktemp_task()
  is 'Make tmp_task, which takes tasks to create until the transaction ends';

create function swh_scheduler_create_tasks_from_temp()
  returns setof task language plpgsql
as $body$
begin
  update tmp_task
     set current_interval = kind.default_interval,
         retries_left = coalesce(tmp_task.retries_left, kind.num_retries, 0)
    from task_type as kind
   where kind.type = tmp_task.type;

  -- A recurring task is there already if one with the same arguments is, a
  -- one-shot task only if it is for the same time. Comparing md5 sums first
  -- lets the index on them be used.
  insert into task (type, arguments, policy, priority, status,
                    next_run, current_interval, retries_left)
  select wanted.type, wanted.arguments, wanted.policy, wanted.priority, wanted.status,
         wanted.next_run, wanted.current_interval, wanted.retries_left
    from tmp_task as wanted
   where not exists (
     select from task as known
      where known.type = wanted.type
        and md5(known.arguments::text) = md5(wanted.arguments::text)
        and known.arguments = wanted.arguments
        and known.policy = wanted.policy
        and known.priority is not distinct from wanted.priority
        and known.status = wanted.status
        and (wanted.policy <> 'oneshot' or known.next_run = wanted.next_run)
   );

  -- Those that were there already are returned too, if for the same time.
  return query
  select distinct made.*
    from task as made
    join tmp_task as wanted
      on made.type = wanted.type
     and md5(made.arguments::text) = md5(wanted.arguments::text)
     and made.arguments = wanted.arguments
     and made.policy = wanted.policy
     and made.priority is not distinct from wanted.priority
     and made.status = wanted.status
     and made.next_run = wanted.next_run;
end
$body$;
comment on function swh_scheduler_create_tasks_from_temp()
  is 'Create the tasks of tmp_task that are not there yet';

-- Looking at ready tasks (peek), and marking them as scheduled (grab).

create function swh_scheduler_peek_no_priority_tasks(
    task_type text,
    ts timestamptz default now(),
    num_tasks bigint default null)
  returns setof task language sql stable
as $body$
  select ready.*
    from task as ready
   where ready.status = 'next_run_not_scheduled'
     and ready.type = task_type
     and ready.priority is null
     and ready.next_run <= ts
   order by ready.next_run
   limit num_tasks
$body$;
comment on function swh_scheduler_peek_no_priority_tasks(text, timestamptz, bigint)
  is 'Ready tasks without priority, those waiting longest first';

create function swh_scheduler_peek_tasks_with_priority(
    task_type text,
    ts timestamptz default now(),
    num_tasks_priority bigint default null,
    task_priority task_priority default 'normal')
  returns setof task language sql stable
as $body$
  select ready.*
    from task as ready
   where ready.status = 'next_run_not_scheduled'
     and ready.type = task_type
     and ready.priority = task_priority
     and ready.next_run <= ts
   order by ready.next_run
   limit num_tasks_priority
$body$;
comment on function swh_scheduler_peek_tasks_with_priority(text, timestamptz, bigint, task_priority)
  is 'Ready tasks of one priority, those waiting longest first';

create function swh_scheduler_peek_any_ready_priority_tasks(
    task_type text,
    ts timestamptz default now(),
    num_tasks bigint default null)
  returns setof task language sql stable
as $body$
  select ready.*
    from task as ready
   where ready.status = 'next_run_not_scheduled'
     and ready.type = task_type
     and ready.priority is not null
     and ready.next_run <= ts
   order by ready.next_run
   limit num_tasks
$body$;
comment on function swh_scheduler_peek_any_ready_priority_tasks(text, timestamptz, bigint)
  is 'Ready tasks of any priority, those waiting longest first';

create function swh_scheduler_grab_ready_tasks(
    task_type text,
    ts timestamptz default now(),
    num_tasks bigint default null)
  returns setof task language sql
as $body$
  update task as taken
     set status = 'next_run_scheduled'
    from swh_scheduler_peek_no_priority_tasks(task_type, ts, num_tasks) as ready
   where ready.id = taken.id
  returning taken.*
$body$;
comment on function swh_scheduler_grab_ready_tasks(text, timestamptz, bigint)
  is 'Mark ready tasks without priority as scheduled';

create function swh_scheduler_grab_any_ready_priority_tasks(
    task_type text,
    ts timestamptz default now(),
    num_tasks bigint default null)
  returns setof task language sql
as $body$
  update task as taken
     set status = 'next_run_scheduled'
    from swh_scheduler_peek_any_ready_priority_tasks(task_type, ts, num_tasks) as ready
   where ready.id = taken.id
  returning taken.*
$body$;
comment on function swh_scheduler_grab_any_ready_priority_tasks(text, timestamptz, bigint)
  is 'Mark ready tasks of any priority as scheduled';

-- Runs: one at a time, or many through tmp_task_run.

create function swh_scheduler_schedule_task_run(
    task_id bigint,
    backend_id text,
    metadata jsonb default '{}'::jsonb,
    ts timestamptz default now())
  returns task_run language sql
as $body$
  insert into task_run (status, task, backend_id, scheduled, metadata)
  values ('scheduled', task_id, backend_id, ts, metadata)
  returning *
$body$;
comment on function swh_scheduler_schedule_task_run(bigint, text, jsonb, timestamptz)
  is 'Note that a run was sent';

create function swh_scheduler_mktemp_task_run()
  returns void language sql
as $body$
  create temporary table tmp_task_run (like task_run) on commit drop;
  -- Both come with the insert.
  alter table tmp_task_run drop column status, drop column id;
$body$;
comment on function swh_scheduler_mktemp_task_run()
  is 'Make tmp_task_run, which takes runs to note until the transaction ends';

create function swh_scheduler_schedule_task_run_from_temp()
  returns void language plpgsql
as $body$
begin
  insert into task_run (status, task, backend_id, scheduled, metadata)
  select 'scheduled', sent.task, sent.backend_id, sent.scheduled, sent.metadata
    from tmp_task_run as sent;
end
$body$;
comment on function swh_scheduler_schedule_task_run_from_temp()
  is 'Note that the runs of tmp_task_run were sent';

create function swh_scheduler_start_task_run(
    backend_id text,
    metadata jsonb default '{}'::jsonb,
    ts timestamptz default now())
  returns task_run language sql
as $body$
  update task_run as run
     set status = 'started',
         started = ts,
         metadata = coalesce(run.metadata, '{}') || swh_scheduler_start_task_run.metadata
   where run.backend_id = swh_scheduler_start_task_run.backend_id
  returning run.*
$body$;
comment on function swh_scheduler_start_task_run(text, jsonb, timestamptz)
  is 'Note that a worker took a run';

create function swh_scheduler_end_task_run(
    backend_id text,
    status task_run_status,
    metadata jsonb default '{}'::jsonb,
    ts timestamptz default now())
  returns task_run language sql
as $body$
  update task_run as run
     set status = swh_scheduler_end_task_run.status,
         ended = ts,
         metadata = coalesce(run.metadata, '{}') || swh_scheduler_end_task_run.metadata
   where run.backend_id = swh_scheduler_end_task_run.backend_id
  returning run.*
$body$;
comment on function swh_scheduler_end_task_run(text, task_run_status, jsonb, timestamptz)
  is 'Note how a run ended; the trigger then moves its task on';

-- When a run ends, its task moves on. The trigger fires at each update of the
-- status, even one that changes nothing: a result noted twice counts twice.

create function swh_scheduler_update_task_on_task_end()
  returns trigger language plpgsql
as $body$
declare
  this task;
  kind task_type;
  pause interval;
begin
  select * into this from task where task.id = new.task;
  select * into kind from task_type where task_type.type = this.type;

  if new.status = 'permfailed' then
    update task set status = 'disabled' where task.id = this.id;

  elsif new.status in ('eventful', 'uneventful') then
    if this.policy = 'oneshot' then
      update task set status = 'completed' where task.id = this.id;
    else
      -- The same for both outcomes. A missing bound is no bound; without a
      -- factor, the pause is the longest one allowed.
      pause := least(kind.max_interval, (1 / kind.backoff_factor) * this.current_interval);
      pause := greatest(kind.min_interval, pause);
      update task
         set status = 'next_run_not_scheduled',
             next_run = new.ended + pause,
             current_interval = pause,
             retries_left = coalesce(kind.num_retries, 0)
       where task.id = this.id;
    end if;

  elsif this.retries_left > 0 then -- failed or lost: try again soon
    update task
       set status = 'next_run_not_scheduled',
           next_run = new.ended + coalesce(kind.retry_delay, interval '1 hour'),
           retries_left = this.retries_left - 1
     where task.id = this.id;

  elsif this.policy = 'oneshot' then -- failed or lost for good
    update task set status = 'disabled' where task.id = this.id;

  else -- failed or lost: wait for the next regular run
    update task
       set status = 'next_run_not_scheduled',
           next_run = new.ended + this.current_interval,
           retries_left = coalesce(kind.num_retries, 0)
     where task.id = this.id;
  end if;

  return null;
end
$body$;
comment on function swh_scheduler_update_task_on_task_end()
  is 'Move a task on when one of its runs ended';

create trigger update_task_on_task_end
  after update of status on task_run
  for each row
  when (new.status not in ('scheduled', 'started'))
  execute function swh_scheduler_update_task_on_task_end();

-- Archiving: reading tasks that will not run again, and deleting them.

create type task_record as (
  task_id         bigint,
  task_policy     task_policy,
  task_status     task_status,
  task_run_id     bigint,
  arguments       jsonb,
  type            text,
  backend_id      text,
  metadata        jsonb,
  scheduled       timestamptz,
  started         timestamptz,
  ended           timestamptz,
  task_run_status task_run_status
);

create function swh_scheduler_task_to_archive(
    ts_after timestamptz,
    ts_before timestamptz,
    last_id bigint default -1,
    lim bigint default 10)
  returns setof task_record language sql stable
as $body$
  select done.id, done.policy, done.status,
         run.id, done.arguments, done.type, run.backend_id, run.metadata,
         run.scheduled, run.started, run.ended, run.status
    from task as done
    join task_run as run on run.task = done.id
   where (done.status = 'disabled' or (done.status = 'completed' and done.policy = 'oneshot'))
     -- A run that never started goes by when it was sent.
     and coalesce(run.started, run.scheduled) >= ts_after
     and coalesce(run.started, run.scheduled) < ts_before
     and done.id >= last_id
   order by run.task, run.started
   limit lim
$body$;
comment on function swh_scheduler_task_to_archive(timestamptz, timestamptz, bigint, bigint)
  is 'Runs within a time span of tasks that will not run again';

create function swh_scheduler_delete_archived_tasks(task_ids bigint[], task_run_ids bigint[])
  returns void language sql
as $body$
  delete from task_run where id = any (task_run_ids);
  -- A task goes with its last run, so that none is lost before it is archived.
  delete from task
   where id = any (task_ids)
     and not exists (select from task_run where task_run.task = task.id);
$body$;
comment on function swh_scheduler_delete_archived_tasks(bigint[], bigint[])
  is 'Delete archived runs, and those archived tasks that have no run left';

-- Counting origins for each lister and visit type.

create function update_metrics(lister_id uuid default null, ts timestamptz default now())
  returns setof scheduler_metrics language plpgsql
as $body$
begin
  -- The count goes to a table first: PostgreSQL runs no parallel query inside
  -- an insert.
  create temporary table tmp_update_metrics on commit drop as
  select origin.lister_id,
         origin.visit_type,
         coalesce(ts, now()) as last_update,
         count(*) as known,
         count(*) filter (where origin.enabled) as enabled,
         count(*) filter (where origin.enabled and stats.last_snapshot is null) as never_visited,
         count(*) filter (where origin.enabled and origin.last_update > stats.last_successful) as pending
    from listed_origins as origin
    left join origin_visit_stats as stats
      on stats.url = origin.url and stats.visit_type = origin.visit_type
   where update_metrics.lister_id is null
      or origin.lister_id = update_metrics.lister_id
   group by origin.lister_id, origin.visit_type;

  return query
  insert into scheduler_metrics as metrics (
    lister_id, visit_type, last_update,
    origins_known, origins_enabled, origins_never_visited, origins_with_pending_changes)
  select counted.lister_id, counted.visit_type, counted.last_update,
         counted.known, counted.enabled, counted.never_visited, counted.pending
    from tmp_update_metrics as counted
  on conflict on constraint scheduler_metrics_pkey do update
     set last_update = excluded.last_update,
         origins_known = excluded.origins_known,
         origins_enabled = excluded.origins_enabled,
         origins_never_visited = excluded.origins_never_visited,
         origins_with_pending_changes = excluded.origins_with_pending_changes
  returning metrics.*;
end
$body$;
comment on function update_metrics(uuid, timestamptz)
  is 'Refresh scheduler_metrics for one lister, or for all';
