-- Figures over time.

-- AddFigures adds a sample to the rows of its five minutes, its hour and its day. values are arrays of
-- numbers, as texts.
-- name: AddFigures :exec
insert into scheduler_go.figures as f (span, figure, name, part, since, samples, sums)
select s.span, n.figure, n.name, n.part, s.since, 1, n.sums::double precision[]
from (select unnest(@figures::text[]) as figure, unnest(@names::text[]) as name, unnest(@parts::text[]) as part, unnest(@sums::text[]) as sums) n
cross join (select unnest(@spans::text[]) as span, unnest(@since::timestamptz[]) as since) s
order by 1, 2, 3, 4
on conflict (span, figure, name, part, since) do update
set samples = f.samples + 1,
    sums = (select coalesce(array_agg(coalesce(v.was, 0) + coalesce(v.new, 0) order by v.place), '{}')
            from (select unnest(f.sums) as was, unnest(excluded.sums) as new, generate_series(1, greatest(cardinality(f.sums), cardinality(excluded.sums))) as place) v);

-- ForgetFigures deletes five minutes after three hours, hours after 30 days, days after two years.
-- name: ForgetFigures :exec
delete from scheduler_go.figures
where span = 'five' and since < now() - interval '195 minutes' or span = 'hour' and since < now() - interval '30 days' or span = 'day' and since < now() - interval '730 days';

-- FiguresOver returns the rows of a figure from a moment on: all of them, or those whose name is among
-- names and whose part is among parts.
-- name: FiguresOver :many
select name, part, since, samples, sums from scheduler_go.figures
where span = @span::text and figure = @figure::text and (@everything::boolean or name = any(@names::text[]) and part = any(@parts::text[])) and since >= @since::timestamptz;

-- LastFigures returns, for each name of a figure, the newest row of five minutes, and the oldest rows of
-- hours and of five minutes since a moment.
-- name: LastFigures :many
select n.name, f.place, f.since, f.samples, f.sums
from (select distinct name from scheduler_go.figures where span = 'five' and figure = @figure::text) n
cross join lateral (
  (select 'last'::text as place, r.since, r.samples, r.sums from scheduler_go.figures r
   where r.span = 'five' and r.figure = @figure and r.name = n.name and r.part = '' order by r.since desc limit 1)
  union all
  (select 'hour', r.since, r.samples, r.sums from scheduler_go.figures r
   where r.span = 'hour' and r.figure = @figure and r.name = n.name and r.part = '' and r.since >= @since::timestamptz order by r.since limit 1)
  union all
  (select 'five', r.since, r.samples, r.sums from scheduler_go.figures r
   where r.span = 'five' and r.figure = @figure and r.name = n.name and r.part = '' order by r.since limit 1)
) f;

-- VisitsInFive sums ended work of the last five whole minutes, by source and type.
-- name: VisitsInFive :many
select source, type, sum(pieces)::bigint as pieces, coalesce(sum(pieces) filter (where status in ('failed', 'permfailed', 'lost')), 0)::bigint as failed,
       coalesce(sum(pieces) filter (where bucket >= 0), 0)::bigint as timed, sum(seconds)::double precision as seconds
from scheduler_go.ended
where minute >= date_trunc('minute', now()) - interval '5 minutes' and minute < date_trunc('minute', now()) and source in ('worker', 'journal')
group by source, type;

-- CountsOfListers returns the Python scheduler's counts of origins (update-metrics) by lister and visit
-- type, with the ends of the last two listings. An unknown time is the epoch. A lister without counts has
-- an empty visit type.
-- name: CountsOfListers :many
select l.name, l.instance_name, coalesce(m.visit_type, '')::text as visit_type, coalesce(case when isfinite(m.last_update) then m.last_update end, 'epoch')::timestamptz as counted,
       coalesce(m.origins_known, 0)::bigint as known, coalesce(m.origins_enabled, 0)::bigint as enabled,
       coalesce(m.origins_never_visited, 0)::bigint as never, coalesce(m.origins_with_pending_changes, 0)::bigint as changed,
       coalesce(case when isfinite(l.last_listing_finished_at) then l.last_listing_finished_at end, 'epoch')::timestamptz as finished,
       coalesce(case when isfinite(g.previous) then g.previous end, 'epoch')::timestamptz as previous
from listers l
left join scheduler_metrics m on m.lister_id = l.id
left join scheduler_go.listings g on g.lister_id = l.id
order by l.name, l.instance_name, m.visit_type;
