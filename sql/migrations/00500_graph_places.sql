-- +goose Up
-- Under a snapshot of hours, changes and checks of graphs that were done stayed in their tables, and
-- each look whether there are any read them all. Now they have places, and looks begin at a low-water
-- mark, like those at changes of candidates (00440).

alter table scheduler_go.low_water add column graphs_low bigint not null default 0, add column graphs_next bigint;
update scheduler_go.low_water set next = null, changes_next = null, next_xid = null;

create sequence scheduler_go.graph_place_seq;
alter table scheduler_go.graph_changes add column place bigint not null default 0;
alter table scheduler_go.graph_checks add column place bigint not null default 0;
-- A transaction has an id before it gets places: raise_low_water relies on that.
alter table scheduler_go.graph_changes alter column place
  set default case when pg_current_xact_id() is not null then nextval('scheduler_go.graph_place_seq') end;
alter table scheduler_go.graph_checks alter column place
  set default case when pg_current_xact_id() is not null then nextval('scheduler_go.graph_place_seq') end;
create index graph_changes_idx on scheduler_go.graph_changes (place);
create index graph_checks_idx on scheduler_go.graph_checks (place);

comment on column scheduler_go.graph_changes.place is 'Order in which changes are spread';
comment on column scheduler_go.graph_checks.place is 'Order in which tasks are looked at';
comment on table scheduler_go.low_water is 'Up to which place nothing in work is outgoing, and all changes of candidates and of graphs are done';
comment on column scheduler_go.low_water.next_xid is 'The transaction that wrote the three next places; those who had got such places had begun before it';
comment on column scheduler_go.low_water.graphs_low is 'All rows of graph_changes and graph_checks have this place or a greater one';
comment on column scheduler_go.low_water.graphs_next is 'Like next, of graph_changes and graph_checks';

-- +goose StatementBegin
create function scheduler_go.graphs_pending(at timestamptz) returns boolean
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
select exists (select from scheduler_go.graph_changes where place >= (select graphs_low from scheduler_go.low_water))
  or exists (select from scheduler_go.graph_checks where place >= (select graphs_low from scheduler_go.low_water))
  or exists (select from scheduler_go.graph_tasks where watch is not null and deadline <= at)
$$;

create function scheduler_go.check_graph_deadlines(max_tasks bigint, at timestamptz) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off set jit = off
as $$
with checks as (
  insert into scheduler_go.graph_checks (task)
  select g.task from scheduler_go.graph_tasks g
  where g.watch is not null and g.deadline <= at and not exists (
    select from scheduler_go.graph_checks c where c.task = g.task and c.place >= (select graphs_low from scheduler_go.low_water))
  order by g.deadline limit max_tasks
  returning task
)
select count(*) from checks
$$;

create or replace function scheduler_go.raise_low_water(step bigint) returns void
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  w scheduler_go.low_water;
  latest bigint;
  latest_change bigint;
  latest_graph bigint;
  lowest bigint;
  lowest_change bigint;
  lowest_graph bigint;
begin
  select last_value into latest from scheduler_go.work_place_seq;
  select last_value into latest_change from scheduler_go.candidate_changes_place_seq;
  select last_value into latest_graph from scheduler_go.graph_place_seq;
  select * into w from scheduler_go.low_water for update skip locked;
  if not found then -- another process does
    return;
  end if;
  if latest < w.low or latest_change < w.changes_low or latest_graph < w.graphs_low then -- places began anew
    update scheduler_go.low_water set low = 0, next = null, changes_low = 0, changes_next = null, graphs_low = 0, graphs_next = null, next_xid = null;
  elsif w.next_xid is null or w.next_xid > pg_snapshot_xmax(pg_current_snapshot()) then -- or this is another server
    if latest >= w.low + step or latest_change >= w.changes_low + step or latest_graph >= w.graphs_low + step then
      update scheduler_go.low_water set next = latest, changes_next = latest_change, graphs_next = latest_graph, next_xid = pg_current_xact_id();
    end if;
  elsif pg_snapshot_xmin(pg_current_snapshot()) >= w.next_xid then
    select min(place) into lowest from (
      (select place from scheduler_go.work where state = 'outgoing' and urgent and place >= w.low order by place limit 1)
      union all
      (select place from scheduler_go.work where state = 'outgoing' and not urgent and place >= w.low order by place limit 1)) o;
    select min((select c.place from scheduler_go.candidate_changes c
                where c.visit_type = t and c.place >= w.changes_low order by c.visit_type, c.place limit 1))
    into lowest_change from scheduler_go.changed_visit_types() t;
    select min(place) into lowest_graph from (
      (select place from scheduler_go.graph_changes where place >= w.graphs_low order by place limit 1)
      union all
      (select place from scheduler_go.graph_checks where place >= w.graphs_low order by place limit 1)) g;
    update scheduler_go.low_water
    set low = least(lowest, w.next), changes_low = least(lowest_change, w.changes_next), graphs_low = least(lowest_graph, w.graphs_next),
        next = null, changes_next = null, graphs_next = null, next_xid = null;
  end if;
end
$$;

create or replace function scheduler_go.spread_graph_changes(max_changes bigint, max_edges bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
set enable_hashjoin = off set jit = off
as $$
with taken as (
  delete from scheduler_go.graph_changes
  where ctid = any(array(
    select ctid from scheduler_go.graph_changes
    where place >= (select graphs_low from scheduler_go.low_water) order by place limit max_changes))
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

create or replace function scheduler_go.settle_graph_tasks(max_tasks bigint, max_edges bigint, at timestamptz,
  out looked_at bigint, out released bigint, out failed bigint, out put_off bigint)
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
begin
  looked_at := 0; released := 0; failed := 0; put_off := 0;
  for c in
    with taken as (
      delete from scheduler_go.graph_checks
      where ctid = any(array(
        select ctid from scheduler_go.graph_checks
        where place >= (select graphs_low from scheduler_go.low_water) order by place limit max_tasks))
      returning task, failed_by
    )
    select g.*, k.failed_by as failed_now, s.cancelled
    from (select task, max(failed_by) as failed_by from taken group by task) k
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
      select d.depends_on into failed_dependency from scheduler_go.graph_dependencies d
      where d.task = c.task and d.depends_on = c.failed_now and d.fate = 'dependency';
      if found then
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

    -- All of them, at one moment.
    max_edges := max_edges - c.dependencies;
    select count(*) filter (where d.unmet), count(*) filter (where d.unmet and d.depends_on <> d.task),
      max(d.depends_on) filter (where d.fate = 'dependency'), max(d.depends_on) filter (where d.fate = 'skipped')
    into unmet, others, failed_dependency, skipped_by
    from scheduler_go.graph_dependencies d where d.task = c.task;
    fate := case when failed_dependency is not null then 'dependency' when skipped_by is not null and others = 0 then 'skipped' end;
    if fate is not null then
      if waits then
        update public.task set status = 'disabled' where id = t.id;
        failed := failed + 1;
      elsif fate <> c.reason then -- no trigger notes that
        insert into scheduler_go.graph_changes (task) values (c.task);
      end if;
      update scheduler_go.graph_tasks set watch = null, reason = fate, failed_by = coalesce(failed_dependency, skipped_by) where task = c.task;
    elsif unmet = 0 then
      update public.task set status = 'next_run_not_scheduled', next_run = at where id = t.id;
      update scheduler_go.graph_tasks set watch = null where task = c.task and watch is not null;
      released := released + 1;
    else
      if not waits then
        update public.task set status = 'next_run_not_scheduled', next_run = scheduler_go.never() where id = t.id;
      end if;
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
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.graphs_pending(timestamptz) is 'Whether there is anything to do for graphs';
comment on function scheduler_go.check_graph_deadlines(bigint, timestamptz) is
  'Notes for a look those tasks of graphs that still wait after their deadline, unless they are noted, and returns how many. The caller holds the lock of graphs';
comment on function scheduler_go.raise_low_water(bigint) is
  'Raises low_water at the second call after work, changes or graphs got so many more places. It is called in a transaction of its own';
