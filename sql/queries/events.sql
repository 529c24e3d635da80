-- Queues of workers' events, and the moments up to which all their events are recorded.

-- DatabaseTime returns the time by the database's clock.
-- name: DatabaseTime :one
select clock_timestamp()::timestamptz;

-- EndsKnown returns the moment up to which all ends of work are recorded.
-- name: EndsKnown :one
select scheduler_go.ends_known(@now)::timestamptz;

-- EventsAge returns the age of that moment in seconds.
-- name: EventsAge :one
select extract(epoch from t.now - scheduler_go.ends_known(t.now))::double precision as seconds from (select clock_timestamp() as now) t;

-- ReportEventReader records the moment up to which a listener has written all events delivered to it. Here and below, a
-- recorded moment that is in the future doesn't count: the database's clock was set back.
-- name: ReportEventReader :exec
insert into scheduler_go.event_readers as r (session, queue, since, complete) values (@session, @queue, least(@since::timestamptz, @complete::timestamptz), @complete)
on conflict (session) do update
set since = least(r.since, excluded.since),
    complete = case when r.complete > clock_timestamp() then excluded.complete else greatest(r.complete, excluded.complete) end;

-- RaiseByObservations raises the moment of a queue by observations that found no waiting message. Each
-- observation took place between two moments, and counted the queue's consumers. At that time, the
-- consumers had all messages. An observation counts once as many listeners have written all events up to
-- its end, and read the queue before it began.
-- name: RaiseByObservations :one
insert into scheduler_go.event_queues as q (queue, complete)
select @queue, coalesce(max(l.began), 'epoch')
from (select unnest(@began::timestamptz[]) as began, unnest(@ended::timestamptz[]) as ended, unnest(@consumers::bigint[]) as consumers) l
where l.consumers = (
  select count(*) from scheduler_go.event_readers r
  where r.queue = @queue and r.since <= l.began and r.complete >= l.ended)
  and l.ended <= clock_timestamp()
on conflict (queue) do update set complete = case when q.complete > clock_timestamp() then excluded.complete else greatest(q.complete, excluded.complete) end
returning complete;

-- RaiseEventQueue raises the moment of a queue.
-- name: RaiseEventQueue :exec
insert into scheduler_go.event_queues as q (queue, complete) values (@queue, @complete)
on conflict (queue) do update set complete = case when q.complete > clock_timestamp() then excluded.complete else greatest(q.complete, excluded.complete) end;

-- ForgetEventReaders deletes listeners without a report since a moment.
-- name: ForgetEventReaders :exec
delete from scheduler_go.event_readers where complete < @before;
