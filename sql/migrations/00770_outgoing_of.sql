-- +goose Up
-- Two indexes have the outgoing messages. By the statistics of a table whose rows come and go, both cost the
-- same. The order leaves one of them.
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
