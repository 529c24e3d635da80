-- +goose Up
-- Two indexes have the outgoing messages. By the statistics of a table whose rows come and go, both cost the
-- same. The order leaves one of them in each function.
-- +goose StatementBegin
create function scheduler_go.outgoing_of(of_queue text) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
begin
  return (select count(*) from (
    select from scheduler_go.work w
    where w.state = 'outgoing' and w.queue = of_queue and w.place >= (select low from scheduler_go.low_water)
    order by w.place) o);
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.outgoing_of(text) is 'Counts the outgoing messages of a queue, by the index of queues';

-- +goose StatementBegin
create function scheduler_go.outgoing_by_queue() returns table (queue text, messages bigint, oldest timestamptz, refused bigint)
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
select o.queue, count(*), min(coalesce(o.since, o.claimed)), count(o.last_error)
from (
  (select w.queue, w.since, w.claimed, w.last_error from scheduler_go.work w
   where w.state = 'outgoing' and w.urgent and w.place >= (select low from scheduler_go.low_water) order by w.place)
  union all
  (select w.queue, w.since, w.claimed, w.last_error from scheduler_go.work w
   where w.state = 'outgoing' and not w.urgent and w.place >= (select low from scheduler_go.low_water) order by w.place)
) o
group by o.queue
$$;
-- +goose StatementEnd
comment on function scheduler_go.outgoing_by_queue() is
  'Counts the outgoing messages by queue, with the date of the oldest one and the number that the broker refused, by the index of places';
