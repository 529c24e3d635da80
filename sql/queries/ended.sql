-- What ended, by minute.

-- CountEnded adds to the counts of this minute. Server processes write rows of their own (of 64
-- parts), so that two hardly ever wait for each other.
-- name: CountEnded :exec
insert into scheduler_go.ended as e (minute, source, type, status, exception, bucket, part, pieces, seconds)
select date_trunc('minute', now()), @source::text, o.type, o.status, o.exception, o.bucket, (pg_backend_pid() % 64)::smallint, o.pieces, o.seconds
from (select unnest(@type::text[]) as type, unnest(@status::text[]) as status, unnest(@exception::text[]) as exception,
             unnest(@bucket::smallint[]) as bucket, unnest(@pieces::bigint[]) as pieces, unnest(@seconds::double precision[]) as seconds) o
order by 1, 2, 3, 4, 5, 6, 7
on conflict (minute, source, type, status, exception, bucket, part) do update set pieces = e.pieces + excluded.pieces, seconds = e.seconds + excluded.seconds;

-- EndedInHour sums the last whole minute, five and sixty of them.
-- name: EndedInHour :many
select source, type, status, exception, bucket,
       coalesce(sum(pieces) filter (where minute >= date_trunc('minute', now()) - interval '1 minute'), 0)::bigint as in_minute,
       coalesce(sum(pieces) filter (where minute >= date_trunc('minute', now()) - interval '5 minutes'), 0)::bigint as in_five,
       sum(pieces)::bigint as in_hour, sum(seconds)::double precision as seconds
from scheduler_go.ended
where minute >= date_trunc('minute', now()) - interval '1 hour' and minute < date_trunc('minute', now())
group by source, type, status, exception, bucket;

-- ForgetEnded deletes counts that EndedInHour no longer reads.
-- name: ForgetEnded :exec
delete from scheduler_go.ended where minute < now() - interval '3 hours';
