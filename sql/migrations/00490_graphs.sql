-- +goose Up
-- Graphs: tasks that wait for tasks. Dependencies are rows, as in Taskcluster's big graph (strategy D),
-- which are not updated, and no row counts them down. A waiting task watches one dependency that has
-- not ended: only the end of that one is noted, and makes the task look for another to watch.

-- A task that waits is not scheduled, and its next run is in the year 9999: the Python scheduler's runner
-- skips it, and its clients can read that date, but not 'infinity'.
create function scheduler_go.never() returns timestamptz
language sql immutable parallel safe as $$ select timestamptz '9999-01-01 00:00:00+00' $$;
comment on function scheduler_go.never() is 'Next run of a task that waits for others';

create table scheduler_go.graphs (
  id        bigint generated always as identity primary key,
  name      text not null,
  submitted timestamptz not null,
  cancelled timestamptz
);

comment on table scheduler_go.graphs is 'Graphs of tasks, as they were submitted';
comment on column scheduler_go.graphs.cancelled is 'When it was cancelled: what waits is not released any more; null: it was not';

create table scheduler_go.graph_tasks (
  task         bigint primary key,
  graph        bigint not null,
  name         text not null,
  any_result   boolean not null,
  dependencies integer not null,
  deadline     timestamptz,
  watch        bigint,
  reason       text check (reason in ('dependency', 'skipped', 'deadline', 'cancelled')),
  failed_by    bigint,
  retries      bigint
) with (fillfactor = 80);
create index graph_tasks_graph_idx on scheduler_go.graph_tasks (graph, task);
create index graph_tasks_watch_idx on scheduler_go.graph_tasks (watch) where watch is not null;
create index graph_tasks_deadline_idx on scheduler_go.graph_tasks (deadline) where watch is not null and deadline is not null;

comment on table scheduler_go.graph_tasks is 'Tasks of graphs; a row is written only by who has locked the row of the table task, if there is one';
comment on column scheduler_go.graph_tasks.task is 'task.id; no foreign key, which would put triggers on the peer''s table';
comment on column scheduler_go.graph_tasks.name is 'Name in its graph';
comment on column scheduler_go.graph_tasks.any_result is 'Whether dependencies without a condition must have ended in any way (all-resolved), rather than be completed';
comment on column scheduler_go.graph_tasks.dependencies is 'How many dependencies it has';
comment on column scheduler_go.graph_tasks.deadline is 'Until when it may wait: if it still waits then, it never runs';
comment on column scheduler_go.graph_tasks.watch is 'Dependency whose end it waits for first: one that had not ended when last looked at, or whose end is in graph_changes; null: it does not wait, or is in graph_checks';
comment on column scheduler_go.graph_tasks.reason is 'Why it was disabled without having been run';
comment on column scheduler_go.graph_tasks.failed_by is 'Dependency that is the reason';
comment on column scheduler_go.graph_tasks.retries is 'Number of retries that it was submitted with; null: as many as its type says';

create table scheduler_go.graph_edges (
  task       bigint not null,
  depends_on bigint not null,
  needs      text check (needs in ('completed', 'resolved', 'failed')),
  primary key (task, depends_on)
);
create index graph_edges_dependents_idx on scheduler_go.graph_edges (depends_on, task);

comment on table scheduler_go.graph_edges is 'Which task waits for which, ended or not';
comment on column scheduler_go.graph_edges.depends_on is 'task.id, of any graph or none';
comment on column scheduler_go.graph_edges.needs is 'How the dependency must end for the task to run; null: as any_result of the task says';

create table scheduler_go.graph_gone (
  task      bigint primary key,
  completed boolean not null
);

comment on table scheduler_go.graph_gone is 'Tasks of graphs, and their dependencies, that were deleted (archived)';
comment on column scheduler_go.graph_gone.completed is 'Whether it was completed then; else it had failed';

-- A transaction has an id before it gets places: raise_low_water relies on that.
create sequence scheduler_go.graph_place_seq;

create table scheduler_go.graph_changes (
  task  bigint not null,
  after bigint not null default 0,
  place bigint not null default case when pg_current_xact_id() is not null then nextval('scheduler_go.graph_place_seq') end,
  reopened     xid8,
  locked_since timestamptz
) with (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
create index graph_changes_idx on scheduler_go.graph_changes (place);
create index graph_changes_reopened_idx on scheduler_go.graph_changes (reopened, place) where reopened is not null;

comment on table scheduler_go.graph_changes is 'Tasks that ended, or are open again, and whose dependents have to be looked at';
comment on column scheduler_go.graph_changes.after is 'Last dependent that was looked at';
comment on column scheduler_go.graph_changes.place is 'Order in which changes are spread';
comment on column scheduler_go.graph_changes.reopened is 'Transaction in which a disabled task was opened again; nothing else is decided until its dependents are looked at. Null: the task ended';
comment on column scheduler_go.graph_changes.locked_since is 'Since when the next dependent could not be opened, as others had locked its row';

create table scheduler_go.graph_checks (
  task      bigint not null,
  failed_by bigint,
  place     bigint not null default case when pg_current_xact_id() is not null then nextval('scheduler_go.graph_place_seq') end
) with (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
create index graph_checks_idx on scheduler_go.graph_checks (place);

comment on table scheduler_go.graph_checks is 'Tasks that have to be looked at: they may run now, or can never';
comment on column scheduler_go.graph_checks.failed_by is 'Dependency that has failed';
comment on column scheduler_go.graph_checks.place is 'Order in which tasks are looked at';

-- Keys of clients, by which a repeated submission or extension of a graph is known.
create table scheduler_go.graph_keys (
  key    text primary key,
  graph  bigint not null,
  digest bytea not null
);
create index graph_keys_graph_idx on scheduler_go.graph_keys (graph);

comment on table scheduler_go.graph_keys is 'Keys that clients gave submissions and extensions of graphs, for as long as there is the graph';
comment on column scheduler_go.graph_keys.digest is 'SHA-256 of what was submitted with the key';

-- The states of dependencies. A deleted task counts as it was when it was deleted.
create view scheduler_go.graph_dependencies as
select s.task, s.depends_on, s.unmet, s.failed,
       case
         when s.unmet or s.condition = 'resolved' or s.failed = (s.condition = 'failed') and not s.skipped then null
         when s.failed and not s.skipped then 'dependency'
         else 'skipped'
       end as fate
from (
  select e.task, e.depends_on,
         e.depends_on = e.task
           or coalesce(d.status in ('next_run_not_scheduled', 'next_run_scheduled'), false) as unmet,
         e.depends_on <> e.task
           and case when d.id is null then not coalesce(o.completed, false) else d.status = 'disabled' end as failed,
         coalesce(r.reason = 'skipped', false) as skipped,
         coalesce(e.needs, case when g.any_result then 'resolved' else 'completed' end) as condition
  from scheduler_go.graph_edges e
  join scheduler_go.graph_tasks g on g.task = e.task
  left join task d on d.id = e.depends_on
  left join scheduler_go.graph_gone o on o.task = e.depends_on and d.id is null
  left join scheduler_go.graph_tasks r on r.task = e.depends_on
) s;
comment on view scheduler_go.graph_dependencies is
  'Dependencies with how they stand: unmet, failed for good, or ended otherwise; and what becomes of the task by it: dependency (at once), skipped (when all have ended), or null; one of a task on itself stays unmet';

-- The states of the tasks of graphs. Tasks are looked up one by one: offset 0 keeps the planner from
-- reading the whole table task for a graph of some hundred tasks.
create view scheduler_go.graph_states as
select g.graph, g.task, g.name, coalesce(t.type, '') as type, g.any_result, g.dependencies, g.deadline, g.failed_by,
       case
         when t.id is null then case when o.completed then 'completed' else coalesce(g.reason, 'failed') end
         when t.status = 'completed' then 'completed'
         when t.status = 'next_run_scheduled' then 'running'
         when t.status = 'disabled' then coalesce(g.reason, 'failed')
         when t.next_run = scheduler_go.never() then 'waiting'
         else 'ready'
       end as state
from scheduler_go.graph_tasks g
left join lateral (select t.id, t.type, t.status, t.next_run from task t where t.id = g.task offset 0) t on true
left join lateral (select o.completed from scheduler_go.graph_gone o where o.task = g.task and t.id is null offset 0) o on true;
comment on view scheduler_go.graph_states is 'Tasks of graphs with their state: waiting, ready (to be sent), running (sent), completed, failed, or why they never ran: dependency, deadline or cancelled';

-- The triggers only note that a task changed, and only if others depend on it: any other task costs one or
-- two index look-ups.
-- +goose StatementBegin
create function scheduler_go.note_graph_change() returns trigger
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

create function scheduler_go.note_graph_deletion() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  if exists (select from scheduler_go.graph_edges where depends_on = old.id) then
    insert into scheduler_go.graph_changes (task) values (old.id);
    notify scheduler_go_graph;
  elsif not exists (select from scheduler_go.graph_tasks where task = old.id) then
    return null;
  end if;
  insert into scheduler_go.graph_gone (task, completed) values (old.id, old.status = 'completed')
  on conflict (task) do update set completed = excluded.completed;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.note_graph_change() is 'Notes that a task ended, or is open again, if others wait for it';
-- Who may execute a trigger function may attach it to a table of his own, and so write these tables.
revoke execute on function scheduler_go.note_graph_change(), scheduler_go.note_graph_deletion() from public;
comment on function scheduler_go.note_graph_deletion() is 'Keeps how a task of a graph stood when it was deleted';

create trigger scheduler_go_graph_change after update of status on task
for each row when (
  old.status <> new.status and (new.status in ('completed', 'disabled') or old.status = 'disabled'))
execute function scheduler_go.note_graph_change();

create trigger scheduler_go_graph_deletion after delete on task
for each row execute function scheduler_go.note_graph_deletion();

create function scheduler_go.graphs_pending(at timestamptz) returns boolean
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
select exists (select from scheduler_go.graph_changes where place >= (select graphs_low from scheduler_go.low_water))
  or exists (select from scheduler_go.graph_checks where place >= (select graphs_low from scheduler_go.low_water))
  or exists (select from scheduler_go.graph_tasks where watch is not null and deadline <= at)
$$;
comment on function scheduler_go.graphs_pending(timestamptz) is 'Whether there is anything to do for graphs';

-- +goose StatementBegin
create function scheduler_go.spread_graph_changes(max_changes bigint, max_edges bigint) returns bigint
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
comment on function scheduler_go.spread_graph_changes(bigint, bigint) is
  'Takes some changes of tasks and, of each, a share of max_edges dependents: those that it matters to watch another dependency or, if that does not do, are noted for a look; returns how many changes it took. The caller holds the lock of graphs';

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
comment on function scheduler_go.check_graph_deadlines(bigint, timestamptz) is
  'Notes for a look those tasks of graphs that still wait after their deadline, unless they are noted, and returns how many. The caller holds the lock of graphs';

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

-- A task that stays as it is although one of its dependencies is open again may stay so because of another one,
-- which follows from the first and is opened next. So failed_by moves to that one.
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
  elsif f.fate = 'dependency' then
    update scheduler_go.graph_tasks set failed_by = f.failed_dependency
    where task = in_task and failed_by is distinct from f.failed_dependency;
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

-- All that didn't end well is open again before anything of it is looked at: a task that asks
-- only for ends would otherwise run before those that it depends on follow.
create function scheduler_go.reopen_graph_tasks(in_graph bigint, after bigint, max_tasks bigint, at timestamptz) returns setof bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
with failed as materialized (
  select t.id, coalesce(g.retries, tt.num_retries, 0) as retries
  from scheduler_go.graph_tasks g
  join public.task t on t.id = g.task
  join public.task_type tt on tt.type = t.type
  where g.graph = in_graph and g.task > after and t.status = 'disabled'
  order by g.task limit max_tasks
  for no key update of t
), undated as (
  update scheduler_go.graph_tasks g set deadline = null
  from failed where g.task = failed.id and g.deadline <= at
), checks as (
  insert into scheduler_go.graph_checks (task) select id from failed
)
update public.task t
set status = 'next_run_not_scheduled', next_run = scheduler_go.never(), retries_left = failed.retries
from failed where t.id = failed.id
returning t.id
$$;
comment on function scheduler_go.reopen_graph_tasks(bigint, bigint, bigint, timestamptz) is
  'Has some disabled tasks of a graph, those after a given one, wait and be looked at, without deadlines that are over; returns which. The caller holds the lock of graphs';

create function scheduler_go.graph_edges_below(tasks bigint[]) returns table (task bigint, depends_on bigint)
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
with recursive below as (
  select unnest(tasks) as task
  union
  select e.depends_on from below b join scheduler_go.graph_edges e on e.task = b.task
)
select e.task, e.depends_on from below b join scheduler_go.graph_edges e on e.task = b.task
where e.depends_on <> e.task
$$;
comment on function scheduler_go.graph_edges_below(bigint[]) is 'Returns the dependencies of some tasks, of those, and so on, without those of tasks on themselves';

-- Looks for tasks and graphs that were missed, a part at a time. These functions look rows up one by one,
-- whatever the planner estimates for the Python scheduler's table.
create function scheduler_go.check_graph_tasks(first_task bigint, end_task bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
with forgotten as (
  insert into scheduler_go.graph_checks (task)
  select t.id
  from scheduler_go.graph_tasks g
  join public.task t on t.id = g.task
  left join public.task w on w.id = g.watch
  where g.task >= first_task and g.task < end_task
    and t.next_run = scheduler_go.never() and t.status = 'next_run_not_scheduled'
    and (w.id is null or w.status not in ('next_run_not_scheduled', 'next_run_scheduled'))
  returning task
), gone as (
  delete from scheduler_go.graph_gone o
  where o.task >= first_task and o.task < end_task
    and not exists (select from scheduler_go.graph_edges e where e.depends_on = o.task)
    and not exists (select from scheduler_go.graph_tasks g where g.task = o.task)
)
select count(*) from forgotten
$$;
create function scheduler_go.empty_graphs(first_graph bigint, end_graph bigint) returns setof bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
select s.id from scheduler_go.graphs s
where s.id >= first_graph and s.id < end_graph
  and 0 = (select count(*) from (
    select from scheduler_go.graph_tasks g join public.task t on t.id = g.task
    where g.graph = s.id limit 1) living)
  and 0 = (select count(*) from (
    select from scheduler_go.graph_tasks g
    join scheduler_go.graph_edges e on e.depends_on = g.task
    join public.task t on t.id = e.task
    where g.graph = s.id limit 1) dependents)
order by s.id
$$;
comment on function scheduler_go.check_graph_tasks(bigint, bigint) is
  'Of the tasks of graphs of some numbers, notes for a look those that wait and whose watched dependency has ended, was deleted, or is missing, and returns how many; forgets deleted tasks on which none depends. The caller holds the lock of graphs';
comment on function scheduler_go.empty_graphs(bigint, bigint) is
  'Returns the graphs of some numbers of which no task is left, and for whose tasks none waits';
