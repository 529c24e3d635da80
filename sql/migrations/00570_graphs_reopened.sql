-- +goose Up
-- A task that was disabled and is open again takes the failures back that followed from it, down to the
-- last task, before any task of a graph is released or disabled because of others. Otherwise a task that
-- asks for a failure would run although that failure is about to be taken back.
alter table scheduler_go.graph_changes
  add column if not exists reopened xid8,
  add column if not exists locked_since timestamptz;
create index graph_changes_reopened_idx on scheduler_go.graph_changes (reopened, place) where reopened is not null;

comment on column scheduler_go.graph_changes.reopened is 'Transaction in which a disabled task was opened again; nothing else is decided until its dependents are looked at. Null: the task ended';
comment on column scheduler_go.graph_changes.locked_since is 'Since when the next dependent could not be opened, as others had locked its row';

-- +goose StatementBegin
create or replace function scheduler_go.note_graph_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  if old.status = 'disabled' then -- open again
    update scheduler_go.graph_tasks set reason = null, failed_by = null
    where task = new.id and reason is not null;
  elsif new.status = 'completed' and not exists (select from scheduler_go.graph_tasks where watch = new.id) then
    return null;
  end if;
  if exists (select from scheduler_go.graph_edges where depends_on = new.id) then
    insert into scheduler_go.graph_changes (task, reopened)
    values (new.id, case when old.status = 'disabled' then pg_current_xact_id() end);
    notify scheduler_go_graph;
  end if;
  return null;
end
$$;
-- +goose StatementEnd

-- A reopened task is seen here if its transaction has ended. Those seen before have a transaction before
-- since, so that not all rows that were deleted since are passed by each time.
create function scheduler_go.graph_fate(of_task bigint, since xid8)
returns table (unmet bigint, others bigint, failed_dependency bigint, skipped_by bigint, fate text, undecided boolean)
language sql stable
as $$
select f.unmet, f.others, f.failed_dependency, f.skipped_by,
       case when f.failed_dependency is not null then 'dependency' when f.skipped_by is not null and f.others = 0 then 'skipped' end,
       exists (select from scheduler_go.graph_changes where reopened >= since)
from (
  select count(*) filter (where d.unmet) as unmet, count(*) filter (where d.unmet and d.depends_on <> d.task) as others,
         max(d.depends_on) filter (where d.fate = 'dependency') as failed_dependency,
         max(d.depends_on) filter (where d.fate = 'skipped') as skipped_by
  from scheduler_go.graph_dependencies d where d.task = of_task
) f
$$;
comment on function scheduler_go.graph_fate(bigint, xid8) is
  'Returns at one moment how many dependencies of a task have not ended, how many of these are not the task itself, and why it can never run: fate, failed_dependency, skipped_by; undecided: another task was opened again by a transaction that is not before since, so that nothing follows from this yet';

-- +goose StatementBegin
create function scheduler_go.reopen_graph_task(in_task bigint, at timestamptz, out locked boolean)
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
  end if;
end
$$;

-- One change after the other, so that a chain is walked in one call. A dependent whose row others have
-- locked stops the change that comes to it, but for no longer than patience: all graphs wait for that.
create function scheduler_go.take_back_graph_failures(max_tasks bigint, max_edges bigint, at timestamptz, patience interval, only_note boolean,
  out taken bigint, out put_off bigint, out more boolean)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
set enable_hashjoin = off set enable_sort = off set jit = off
as $$
declare
  c record; -- the change
  d record; -- a dependent of its task
  last_xid xid8 := '0';
  last_place bigint := 0;
  share bigint;
  rest boolean; -- of the change, for another call
  is_locked boolean;
  stopped scheduler_go.graph_changes[] := '{}';
begin
  taken := 0; put_off := 0;
  while max_tasks > 0 and max_edges > 0 loop
    delete from scheduler_go.graph_changes
    where ctid = (
      select ctid from scheduler_go.graph_changes
      where reopened is not null and (reopened, place) > (last_xid, last_place) order by reopened, place limit 1)
    returning * into c;
    exit when not found;
    last_xid := c.reopened; last_place := c.place;
    taken := taken + 1;
    max_edges := max_edges - 1;
    share := greatest(max_edges, 1);
    rest := false;
    for d in
      select e.task, e.passed, g.reason, g.failed_by, g.watch, g.dependencies
      from (
        select o.task, row_number() over (order by o.task) as passed from scheduler_go.graph_edges o
        where o.depends_on = c.task and o.task > c.after
        order by o.task limit share
      ) e
      join scheduler_go.graph_tasks g on g.task = e.task
      order by e.task
    loop
      max_edges := max_edges - 1;
      if d.reason = 'skipped' or d.reason = 'dependency' and d.failed_by = c.task then
        if max_tasks <= 0 then
          rest := true;
          exit;
        end if;
        max_tasks := max_tasks - 1;
        max_edges := max_edges - d.dependencies;
        is_locked := false;
        if only_note then
          insert into scheduler_go.graph_checks (task) values (d.task);
        else
          select r.locked into is_locked from scheduler_go.reopen_graph_task(d.task, at) r;
        end if;
        if is_locked then
          put_off := put_off + 1;
          c.locked_since := coalesce(c.locked_since, clock_timestamp());
          if c.locked_since > clock_timestamp() - patience then
            stopped := stopped || row(c.task, c.after, c.place, c.reopened, c.locked_since)::scheduler_go.graph_changes;
            rest := false;
            exit;
          end if;
          insert into scheduler_go.graph_checks (task) values (d.task);
        end if;
      elsif d.watch = d.task then -- it watches itself only once all others have ended
        insert into scheduler_go.graph_checks (task) values (d.task);
      end if;
      c.after := d.task;
      rest := d.passed = share;
    end loop;
    if rest then
      insert into scheduler_go.graph_changes (task, after, reopened, locked_since) values (c.task, c.after, c.reopened, c.locked_since);
    end if;
  end loop;
  more := exists (select from scheduler_go.graph_changes where reopened is not null);
  insert into scheduler_go.graph_changes (task, after, reopened, locked_since)
  select s.task, s.after, s.reopened, s.locked_since from unnest(stopped) s;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.reopen_graph_task(bigint, timestamptz) is
  'Has a task that could not run because of others wait and be looked at, if that does not hold any more; what could not run before its deadline, or is in a cancelled graph, stays as it is. locked: others have locked its row. The caller holds the lock of graphs';
comment on function scheduler_go.take_back_graph_failures(bigint, bigint, timestamptz, interval, boolean) is
  'Takes changes of tasks that are open again, and opens those of their dependents that could not run because of them, and so on; returns how many changes it took, how many dependents others had locked, and whether more changes are left than those that wait for locks. only_note: it opens none, but notes them for a look. The caller holds the lock of graphs';

-- +goose StatementBegin
create or replace function scheduler_go.spread_graph_changes(max_changes bigint, max_edges bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
set enable_hashjoin = off set jit = off
as $$
with taken as (
  delete from scheduler_go.graph_changes
  where ctid = any(array(
    select ctid from scheduler_go.graph_changes
    where reopened is null and place >= (select graphs_low from scheduler_go.low_water) order by place limit max_changes))
  returning task, after
), changed as materialized (
  select c.task, c.after,
         case when t.id is null then not coalesce(g.completed, false) else t.status = 'disabled' end
           and r.reason is distinct from 'skipped' as failed,
         coalesce(t.status in ('next_run_not_scheduled', 'next_run_scheduled'), false) as open
  from (select task, min(after) as after from taken group by task) c
  left join public.task t on t.id = c.task
  left join scheduler_go.graph_gone g on g.task = c.task and t.id is null
  left join scheduler_go.graph_tasks r on r.task = c.task
), share as materialized (
  select max_edges / greatest(count(*), 1) + 1 as edges from changed
), walked as materialized (
  select c.task as depends_on, c.failed, c.open, e.task, e.needs
  from changed c cross join lateral (
    select e.task, e.needs from scheduler_go.graph_edges e
    where e.depends_on = c.task and e.task > c.after
    order by e.task limit (select edges from share)
  ) e
), left_over as (
  insert into scheduler_go.graph_changes (task, after)
  select depends_on, max(task) from walked group by depends_on having count(*) = (select edges from share)
), mattering as materialized (
  select w.task, w.depends_on, f.failed,
         -- It only has to watch another, which takes no look at the task itself.
         g.watch = w.depends_on and w.task <> w.depends_on and not f.failed
           and not w.open and g.dependencies <= 100 as watch_next
  from walked w join scheduler_go.graph_tasks g on g.task = w.task
  cross join lateral (
    select w.failed and coalesce(w.needs, case when g.any_result then 'resolved' else 'completed' end) = 'completed' as failed
  ) f
  where g.watch = w.depends_on or g.failed_by = w.depends_on
    or f.failed and (g.watch is not null or g.reason = 'skipped')
    or w.open and (g.reason = 'skipped' or g.watch = g.task)
), next_watches as materialized (
  select m.task, m.depends_on, d.id
  from mattering m cross join lateral (
    select d.id
    from scheduler_go.graph_edges e join public.task d on d.id = e.depends_on
    where e.task = m.task and e.depends_on < m.depends_on and d.id <> m.task and d.status in ('next_run_not_scheduled', 'next_run_scheduled')
    order by e.depends_on desc limit 1
    for share of d skip locked
  ) d
  where m.watch_next
), moved as (
  update scheduler_go.graph_tasks g set watch = n.id
  from next_watches n
  -- "=" might be looked up in the index of watches, in which many may be the same.
  where g.task = n.task and g.watch is not distinct from n.depends_on
  returning g.task, n.depends_on
), found as (
  insert into scheduler_go.graph_checks (task, failed_by)
  select m.task, case when m.failed then m.depends_on end
  from mattering m
  where (m.task, m.depends_on) not in (select task, depends_on from moved)
)
select count(*) from taken
$$;
-- +goose StatementEnd

-- One task after the other, each by small questions of an index, so that the cost
-- is the same for all. Every statement sees what is committed by then. What could not run
-- before its deadline stays as it is, so that it doesn't depend on the order in which tasks
-- are looked at whether it is in the state deadline.
-- +goose StatementBegin
create function scheduler_go.settle_graph_tasks(max_tasks bigint, max_edges bigint, at timestamptz, these bigint[],
  out looked_at bigint, out released bigint, out failed bigint, out put_off bigint, out reopened boolean)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
set enable_hashjoin = off set jit = off
as $$
declare
  c record;             -- the task of a graph to look at
  t public.task%rowtype;
  waits boolean;
  unmet bigint;
  others bigint;        -- of these, those that are not the task itself
  failed_dependency bigint;
  skipped_by bigint;
  next_watch bigint;
  fate text;
  since xid8;           -- what was opened again before that is taken back
  undecided boolean;    -- something was opened again meanwhile
begin
  looked_at := 0; released := 0; failed := 0; put_off := 0;
  select pg_snapshot_xmin(pg_current_snapshot()), exists (select from scheduler_go.graph_changes g where g.reopened is not null)
  into since, undecided;
  if undecided then -- nothing is decided now, except what is so whatever the dependencies
    since := '0';
  end if;
  for c in
    with taken as (
      delete from scheduler_go.graph_checks
      where these is null and ctid = any(array(
        select ctid from scheduler_go.graph_checks
        where place >= (select graphs_low from scheduler_go.low_water) order by place limit max_tasks))
      returning task, failed_by
    )
    select g.*, k.failed_by as failed_now, s.cancelled
    from (
      select task, max(failed_by) as failed_by from taken group by task
      union all
      select distinct n.task, null::bigint from unnest(these) as n (task)
    ) k
    join scheduler_go.graph_tasks g on g.task = k.task
    left join scheduler_go.graphs s on s.id = g.graph
    order by g.task
  loop
    looked_at := looked_at + 1;
    if max_edges <= 0 then -- the rest another time
      insert into scheduler_go.graph_checks (task, failed_by) values (c.task, c.failed_now);
      continue;
    end if;
    max_edges := max_edges - 1;
    -- Nothing is waited for here, so that nobody ever waits for this in a circle.
    select * into t from public.task where id = c.task for no key update skip locked;
    if not found then
      if exists (select from public.task where id = c.task) then
        insert into scheduler_go.graph_checks (task, failed_by) values (c.task, c.failed_now);
        put_off := put_off + 1;
      else
        update scheduler_go.graph_tasks set watch = null where task = c.task and watch is not null;
      end if;
      continue;
    end if;
    waits := t.status = 'next_run_not_scheduled' and t.next_run = scheduler_go.never();
    fate := null;

    if c.cancelled is not null then
      case t.status
        when 'next_run_not_scheduled' then fate := 'cancelled';
        when 'next_run_scheduled' then -- may finish, but is not tried again
          update public.task set retries_left = 0 where id = t.id and retries_left <> 0;
        else null;
      end case;
    elsif waits and c.deadline <= at then
      fate := 'deadline';
    elsif waits and c.failed_now is not null then
      select d.depends_on, exists (select from scheduler_go.graph_changes g where g.reopened >= since) into failed_dependency, undecided
      from scheduler_go.graph_dependencies d
      where d.task = c.task and d.depends_on = c.failed_now and d.fate = 'dependency';
      if found and undecided then
        insert into scheduler_go.graph_checks (task, failed_by) values (c.task, c.failed_now);
        max_edges := 0;
        continue;
      elsif found then
        fate := 'dependency';
      else
        c.watch := null; -- that one is open again, but another may have failed: look at all
      end if;
    end if;
    if fate is not null then
      update public.task set status = 'disabled' where id = t.id;
      update scheduler_go.graph_tasks
      set watch = null, reason = fate, failed_by = case when fate = 'dependency' then failed_dependency end
      where task = c.task;
      failed := failed + 1;
      continue;
    end if;
    if c.cancelled is not null or not waits
      and not (t.status = 'disabled' and coalesce(c.reason in ('dependency', 'skipped') and (c.deadline > at or c.deadline is null), false)) then
      -- It runs, or has ended: by hand, or long since; or it could not run in time.
      update scheduler_go.graph_tasks set watch = null where task = c.task and watch is not null;
      continue;
    end if;

    if waits and c.watch is not null then
      if c.watch <> c.task and exists (
        select from public.task d where d.id = c.watch and d.status in ('next_run_not_scheduled', 'next_run_scheduled')
      ) then
        continue;
      end if;
      -- Those above the one watched so far were passed by before. A dependency
      -- that is locked may be ending: its end has not seen that it is watched.
      max_edges := max_edges - c.dependencies;
      select d.id into next_watch
      from scheduler_go.graph_edges e join public.task d on d.id = e.depends_on
      where e.task = c.task and e.depends_on < c.watch and d.id <> c.task and d.status in ('next_run_not_scheduled', 'next_run_scheduled')
      order by e.depends_on desc limit 1
      for share of d skip locked;
      if found then
        update scheduler_go.graph_tasks set watch = next_watch where task = c.task;
        continue;
      end if;
    end if;

    if not waits then -- it could not run because of others
      max_edges := max_edges - c.dependencies;
      perform scheduler_go.reopen_graph_task(c.task, at);
      continue;
    end if;

    -- All of them, at one moment.
    max_edges := max_edges - c.dependencies;
    select f.unmet, f.others, f.failed_dependency, f.skipped_by, f.fate, f.undecided
    into unmet, others, failed_dependency, skipped_by, fate, undecided
    from scheduler_go.graph_fate(c.task, since) f;
    if undecided and (fate is not null or unmet = 0) then
      insert into scheduler_go.graph_checks (task) values (c.task);
      max_edges := 0;
    elsif fate is not null then
      update public.task set status = 'disabled' where id = t.id;
      failed := failed + 1;
      update scheduler_go.graph_tasks set watch = null, reason = fate, failed_by = coalesce(failed_dependency, skipped_by) where task = c.task;
    elsif unmet = 0 then
      update public.task set status = 'next_run_not_scheduled', next_run = at where id = t.id;
      update scheduler_go.graph_tasks set watch = null where task = c.task and watch is not null;
      released := released + 1;
    else
      next_watch := c.task; -- itself only once all others have ended
      if others > 0 then
        select d.id into next_watch
        from scheduler_go.graph_edges e join public.task d on d.id = e.depends_on
        where e.task = c.task and d.id <> c.task and d.status in ('next_run_not_scheduled', 'next_run_scheduled')
        order by e.depends_on desc limit 1
        for share of d skip locked;
        if not found then
          insert into scheduler_go.graph_checks (task) values (c.task);
          put_off := put_off + 1;
        end if;
      end if;
      update scheduler_go.graph_tasks set watch = next_watch where task = c.task;
    end if;
  end loop;
  reopened := exists (select from scheduler_go.graph_changes g where g.reopened >= since);
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.settle_graph_tasks(bigint, bigint, timestamptz, bigint[]) is
  'Looks at some waiting tasks of graphs, those of these or, if that is null, those that are noted: releases those whose dependencies have ended, disables those that can never run, has the others watch a dependency, and puts off those that others hold locked. reopened: tasks are open again whose dependents come first. The caller holds the lock of graphs';

-- +goose StatementBegin
create or replace function scheduler_go.settle_graph_tasks(max_tasks bigint, max_edges bigint, at timestamptz,
  out looked_at bigint, out released bigint, out failed bigint, out put_off bigint)
language plpgsql as $$
declare
  b record;
begin
  select * into b from scheduler_go.take_back_graph_failures(max_tasks, max_edges, at, interval '10 s', false);
  if b.taken > 0 or b.more then
    looked_at := b.taken; released := 0; failed := 0; put_off := b.put_off;
    return;
  end if;
  select s.looked_at, s.released, s.failed, s.put_off into looked_at, released, failed, put_off
  from scheduler_go.settle_graph_tasks(max_tasks, max_edges, at, null) s;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.settle_graph_tasks(bigint, bigint, timestamptz) is
  'Takes failures back and, if there are none, settles, for programs from before this migration';
