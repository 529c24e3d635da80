-- Ended work, by minute.

-- CountEnded adds to the counts of this minute. Each server process writes one of 64 partial rows, so two
-- rarely wait for each other.
-- name: CountEnded :exec
insert into scheduler_go.ended as e (minute, source, type, status, exception, bucket, part, pieces, seconds)
select date_trunc('minute', now()), o.source, o.type, o.status, o.exception, o.bucket, (pg_backend_pid() % 64)::smallint, o.pieces, o.seconds
from (select unnest(@source::text[]) as source, unnest(@type::text[]) as type, unnest(@status::text[]) as status, unnest(@exception::text[]) as exception,
             unnest(@bucket::smallint[]) as bucket, unnest(@pieces::bigint[]) as pieces, unnest(@seconds::double precision[]) as seconds) o
order by 1, 2, 3, 4, 5, 6, 7
on conflict (minute, source, type, status, exception, bucket, part) do update set pieces = e.pieces + excluded.pieces, seconds = e.seconds + excluded.seconds;

-- EndedInHour returns the sums of the last whole minute, of the last five, and of the last sixty.
-- name: EndedInHour :many
select source, type, status, exception, bucket,
       coalesce(sum(pieces) filter (where minute >= date_trunc('minute', now()) - interval '1 minute'), 0)::bigint as in_minute,
       coalesce(sum(pieces) filter (where minute >= date_trunc('minute', now()) - interval '5 minutes'), 0)::bigint as in_five,
       sum(pieces)::bigint as in_hour, sum(seconds)::double precision as seconds
from scheduler_go.ended
where minute >= date_trunc('minute', now()) - interval '1 hour' and minute < date_trunc('minute', now()) and source <> 'wait'
group by source, type, status, exception, bucket;

-- OldEndedHour returns the oldest whole hour of minutes that ended at least three hours ago, or the epoch
-- if there is none.
-- name: OldEndedHour :one
select coalesce(date_trunc('hour', min(minute), 'UTC'), 'epoch')::timestamptz as hour
from scheduler_go.ended where minute < date_trunc('hour', now() - interval '3 hours', 'UTC');

-- LockEndedPast makes processes move ended work one after another.
-- name: LockEndedPast :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler ended', 0));

-- MoveEnded moves the minutes of an hour to its hour and its day. It records the first and last failure of
-- tasks by class of exception. An hour or a day keeps the classes that it already has for a type. It adds
-- the most frequent other classes up to a bound, and counts the rest as (other).
-- name: MoveEnded :exec
with gone as (
  delete from scheduler_go.ended where minute >= @hour::timestamptz and minute < @next_hour::timestamptz
  returning minute, source, type, status, exception, bucket, pieces, seconds
), spans as (
  select 'hour'::text as span, @hour::timestamptz as since, @most_exceptions::bigint as most
  union all
  select 'day', date_trunc('day', @hour::timestamptz, 'UTC'), @most_exceptions::bigint
), had as (
  select distinct p.span, p.source, p.type, p.exception
  from spans s join scheduler_go.ended_past p on p.span = s.span and p.since = s.since
  where p.exception not in ('', '(other)')
), named as (
  select s.span, s.most, g.source, g.type, g.exception, row_number() over (partition by s.span, g.source, g.type order by sum(g.pieces) desc, g.exception) as place
  from gone g cross join spans s
  where g.exception <> '' and not exists (select from had h where h.span = s.span and h.source = g.source and h.type = g.type and h.exception = g.exception)
  group by s.span, s.most, g.source, g.type, g.exception
), kept as (
  select h.span, h.source, h.type, h.exception from had h
  union all
  select n.span, n.source, n.type, n.exception from named n
  left join (select h.span, h.source, h.type, count(*) as names from had h group by 1, 2, 3) o on o.span = n.span and o.source = n.source and o.type = n.type
  where n.place <= n.most - coalesce(o.names, 0)
), cells as (
  select s.span, s.since, g.source, g.type, g.status,
         case when g.exception = '' or k.exception is not null then g.exception else '(other)' end as exception,
         g.bucket, sum(g.pieces)::bigint as pieces, sum(g.seconds) as seconds
  from gone g cross join spans s
  left join kept k on k.span = s.span and k.source = g.source and k.type = g.type and k.exception = g.exception
  group by 1, 2, 3, 4, 5, 6, 7
), noted as (
  insert into scheduler_go.errors as e (type, exception, first, last)
  select g.type, g.exception, min(g.minute), max(g.minute)
  from gone g where g.source = 'worker' and g.status in ('failed', 'permfailed', 'lost')
  group by g.type, g.exception
  on conflict (type, exception) do update set first = least(e.first, excluded.first), last = greatest(e.last, excluded.last)
)
insert into scheduler_go.ended_past as p (span, since, source, type, status, exception, pieces, seconds, buckets, counts)
select c.span, c.since, c.source, c.type, c.status, c.exception, sum(c.pieces), sum(c.seconds), array_agg(c.bucket order by c.bucket), array_agg(c.pieces order by c.bucket)
from cells c
group by 1, 2, 3, 4, 5, 6
on conflict (span, source, type, since, status, exception) do update
set pieces = p.pieces + excluded.pieces, seconds = p.seconds + excluded.seconds,
    (buckets, counts) = (
      select array_agg(m.bucket order by m.bucket), array_agg(m.pieces order by m.bucket)
      from (select b.bucket, sum(b.pieces)::bigint as pieces
            from (select unnest(p.buckets) as bucket, unnest(p.counts) as pieces
                  union all
                  select unnest(excluded.buckets), unnest(excluded.counts)) b
            group by b.bucket) m);

-- ForgetEndedPast deletes hours after 30 days and days after two years. Rows with future times, as of a
-- clock that was wrong, go after the same times.
-- name: ForgetEndedPast :exec
delete from scheduler_go.ended_past
where span = 'hour' and since < now() - interval '30 days' or span = 'day' and since < now() - interval '730 days';

-- ForgetErrors deletes classes of exceptions after two years, and those beyond a bound per type, the oldest
-- first.
-- name: ForgetErrors :exec
delete from scheduler_go.errors e
using (select f.type, f.exception, f.last, row_number() over (partition by f.type order by f.last desc, f.exception) as place from scheduler_go.errors f) o
where o.type = e.type and o.exception = e.exception and (o.last < now() - interval '730 days' or o.place > @most::bigint);

-- EndedSteps sums ended work from a moment on, over all types, in steps of some seconds counted from 1970.
-- span is hour, day, or empty for minutes only.
-- name: EndedSteps :many
select e.source, e.type, e.status, floor(extract(epoch from e.at) / @step::double precision)::bigint as step, sum(e.pieces)::bigint as pieces
from (select m.minute as at, m.source, m.type, m.status, m.pieces from scheduler_go.ended m where m.minute >= @since::timestamptz
      union all
      select p.since, p.source, p.type, p.status, p.pieces from scheduler_go.ended_past p where p.span = @span::text and p.since >= @since::timestamptz) e
where e.source <> 'wait'
group by 1, 2, 3, 4;

-- FailureSteps sums failures from a moment on by source, type and exception, in the steps of EndedSteps.
-- It returns the first and the last minute of each. It reads ended_past by the index of failures only.
-- name: FailureSteps :many
select e.source, e.type, e.exception, floor(extract(epoch from e.at) / @step::double precision)::bigint as step, sum(e.pieces)::bigint as pieces, min(e.at)::timestamptz as first, max(e.at)::timestamptz as last
from (select m.minute as at, m.source, m.type, m.status, m.exception, m.pieces from scheduler_go.ended m
      where m.minute >= @since::timestamptz and m.status in ('failed', 'permfailed', 'lost')
      union all
      select p.since, p.source, p.type, p.status, p.exception, p.pieces from scheduler_go.ended_past p
      where p.span = @span::text and p.since >= @since::timestamptz and p.status in ('failed', 'permfailed', 'lost')) e
where e.source = 'worker' or e.source = 'journal' and e.status = 'failed'
group by 1, 2, 3, 4;

-- Errors lists the first and the last failure of tasks by class of exception, up to three hours ago.
-- name: Errors :many
select * from scheduler_go.errors;
