-- Queues of workers' events, and up to when these are known.

-- DatabaseTime returns the time by the database's clock.
-- name: DatabaseTime :one
select clock_timestamp()::timestamptz;

-- EndsKnown returns the moment up to which the ends of work are known.
-- name: EndsKnown :one
select scheduler_go.ends_known(@now)::timestamptz;

-- EventsAge returns how many seconds ago the moment was up to which the ends of work are known.
-- name: EventsAge :one
select extract(epoch from t.now - scheduler_go.ends_known(t.now))::double precision as seconds from (select clock_timestamp() as now) t;

-- ReportEventReader writes up to when a listener has written what was sent to it.
-- name: ReportEventReader :exec
insert into scheduler_go.event_readers as r (session, queue, since, complete) values (@session, @queue, @since, @complete)
on conflict (session) do update set complete = greatest(r.complete, excluded.complete);

-- RaiseByObservations raises the moment of a queue by looks at it that found no message waiting: each says
-- that it was made between two moments, and how many consumers there were. Then the consumers had all
-- messages. A look counts once so many listeners that had read the queue before it have written all
-- that was sent to them by its end.
-- name: RaiseByObservations :one
insert into scheduler_go.event_queues as q (queue, complete)
select @queue, coalesce(max(l.began), 'epoch')
from (select unnest(@began::timestamptz[]) as began, unnest(@ended::timestamptz[]) as ended, unnest(@consumers::bigint[]) as consumers) l
where l.consumers = (
  select count(*) from scheduler_go.event_readers r
  where r.queue = @queue and r.since <= l.began and r.complete >= l.ended)
on conflict (queue) do update set complete = greatest(q.complete, excluded.complete)
returning complete;

-- RaiseEventQueue raises the moment of a queue.
-- name: RaiseEventQueue :exec
insert into scheduler_go.event_queues as q (queue, complete) values (@queue, @complete)
on conflict (queue) do update set complete = greatest(q.complete, excluded.complete);

-- ForgetEventReaders deletes listeners that have reported nothing since a moment.
-- name: ForgetEventReaders :exec
delete from scheduler_go.event_readers where complete < @before;
