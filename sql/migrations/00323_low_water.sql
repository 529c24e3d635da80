-- +goose Up
-- Under a snapshot of hours, the rows of messages that were sent stay in the indexes, and each
-- look at what is outgoing passed them by. Now it begins at a place below which nothing is
-- outgoing.
create table scheduler_go.low_water (
  low      bigint not null default 0,
  next     bigint,
  next_xid xid8,
  only_row boolean primary key default true check (only_row)
);
insert into scheduler_go.low_water default values;

comment on table scheduler_go.low_water is 'Up to which place nothing in work is outgoing';
comment on column scheduler_go.low_water.low is 'All outgoing work has this place or a greater one';
comment on column scheduler_go.low_water.next is 'Place that work got last when this was written; it may be low once those have ended who had begun by then';
comment on column scheduler_go.low_water.next_xid is 'The first transaction that had not begun then';

drop index scheduler_go.work_outgoing_queue_idx;
create index work_outgoing_queue_idx on scheduler_go.work (queue, place) where state = 'outgoing';

-- A transaction gets a place, and writes the row with it later. So low passes a place only
-- when all have ended who may have got a lower one; who claims or sends has a transaction id
-- before it gets places. The row is written seldom: under a long snapshot its versions stay, too.
-- +goose StatementBegin
create function scheduler_go.raise_low_water(step bigint) returns void
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
declare
  w scheduler_go.low_water;
  latest bigint;
  lowest bigint;
begin
  select * into w from scheduler_go.low_water for update skip locked;
  if not found then -- another process does
    return;
  end if;
  select last_value into latest from scheduler_go.work_place_seq; -- before the transactions are looked at
  if latest < w.low then -- places began anew
    update scheduler_go.low_water set low = 0, next = null, next_xid = null;
  elsif w.next is null or w.next_xid > pg_snapshot_xmax(pg_current_snapshot()) then -- or this is another server
    if latest >= w.low + step then
      update scheduler_go.low_water set next = latest, next_xid = pg_snapshot_xmax(pg_current_snapshot());
    end if;
  elsif pg_snapshot_xmin(pg_current_snapshot()) >= w.next_xid then
    select min(place) into lowest from (
      (select place from scheduler_go.work where state = 'outgoing' and urgent and place >= w.low order by place limit 1)
      union all
      (select place from scheduler_go.work where state = 'outgoing' and not urgent and place >= w.low order by place limit 1)) o;
    update scheduler_go.low_water set low = least(lowest, w.next), next = null, next_xid = null;
  end if;
end
$$;

-- Each part in the order of the index, so that the planner takes that one.
create function scheduler_go.outgoing_due(of_urgent boolean) returns bigint
language sql stable
as $$
with outgoing as materialized (
  (select queue, urgent, not_before from scheduler_go.work
   where state = 'outgoing' and urgent and place >= (select low from scheduler_go.low_water) order by place)
  union all
  (select queue, urgent, not_before from scheduler_go.work
   where state = 'outgoing' and not urgent and place >= (select low from scheduler_go.low_water) order by place)
)
select count(*) from outgoing
where urgent = of_urgent and not_before <= statement_timestamp()
  and queue not in (select queue from outgoing where not_before > statement_timestamp())
$$;
-- +goose StatementEnd
comment on function scheduler_go.outgoing_due(boolean) is
  'Counts the outgoing messages that are due, urgent ones or the others, without those of queues some of whose messages wait';
comment on function scheduler_go.raise_low_water(bigint) is
  'Raises low_water at the second call after work got so many more places';
