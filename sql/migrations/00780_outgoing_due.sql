-- +goose Up
-- Each part has an order, and sorts are off, so only the index of that order helps. By the statistics of a table whose
-- rows come and go, the index of queues may cost less than that of places, and would be read as a whole.
-- +goose StatementBegin
create or replace function scheduler_go.outgoing_due(of_urgent boolean) returns bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set jit = off
as $$
with outgoing as materialized (
  (select queue, not_before from scheduler_go.work
   where of_urgent and state = 'outgoing' and urgent and place >= (select low from scheduler_go.low_water) order by place)
  union all
  (select queue, not_before from scheduler_go.work
   where not of_urgent and state = 'outgoing' and not urgent and place >= (select low from scheduler_go.low_water) order by place)
),
queues as (
  select queue, count(*) as messages from outgoing group by queue
  having max(not_before) <= statement_timestamp()
)
-- Of the other messages, those of the queue are looked for where there are fewer to pass by.
select coalesce(sum(messages), 0)::bigint from queues q
where case when of_urgent then (
    select w.place from scheduler_go.work w
    where w.state = 'outgoing' and w.queue = q.queue and w.place >= (select low from scheduler_go.low_water)
      and not w.urgent and w.not_before > statement_timestamp()
    order by w.place limit 1) is null
  else q.queue not in (
    select w.queue from scheduler_go.work w
    where w.state = 'outgoing' and w.urgent and w.place >= (select low from scheduler_go.low_water)
      and w.not_before > statement_timestamp()
    order by w.place)
  end
$$;
-- +goose StatementEnd
