-- Hosters that refuse visits, and the visits that they refused.

-- RefusingHosters returns the states of hosters.
-- name: RefusingHosters :many
select * from scheduler_go.refusing_hosters where hoster = any(@hosters::text[]);

-- LockFirstRefusals waits for other transactions with the first refusals of hosters, which have no row to lock.
-- name: LockFirstRefusals :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler first refusals', 0));

-- LockRefusingHosters returns the states of hosters, and locks them in order.
-- name: LockRefusingHosters :many
select * from scheduler_go.refusing_hosters where hoster = any(@hosters::text[]) order by hoster for update;

-- LimitedByRefusals returns the hosters with a learned limit, and those that get no visits now.
-- name: LimitedByRefusals :many
select * from scheduler_go.refusing_hosters where max_load > 0 or closed > @now order by hoster;

-- ForgetRefusingHoster deletes the state of a hoster.
-- name: ForgetRefusingHoster :execrows
delete from scheduler_go.refusing_hosters where hoster = @hoster;

-- WriteRefusingHosters writes states.
-- name: WriteRefusingHosters :exec
insert into scheduler_go.refusing_hosters as r (hoster, max_load, closed, level, lowered, until, waits, rounds, raised, since, score, refused, kind, reason, in_flight, counted, mixed, seconds, ended)
select unnest(@hoster::text[]), unnest(@max_load::double precision[]), unnest(@closed::timestamptz[]), unnest(@level::double precision[]), unnest(@lowered::timestamptz[]),
       unnest(@until::timestamptz[]), unnest(@waits::integer[]), unnest(@rounds::double precision[]), unnest(@raised::timestamptz[]), unnest(@since::timestamptz[]),
       unnest(@score::double precision[]), unnest(@refused::timestamptz[]), unnest(@kind::text[]), unnest(@reason::text[]), unnest(@in_flight::integer[]),
       unnest(@counted::timestamptz[]), unnest(@mixed::boolean[]), unnest(@seconds::double precision[]), unnest(@ended::integer[])
order by 1
on conflict (hoster) do update
set (max_load, closed, level, lowered, until, waits, rounds, raised, since, score, refused, kind, reason, in_flight, counted, mixed, seconds, ended)
  = (excluded.max_load, excluded.closed, excluded.level, excluded.lowered, excluded.until, excluded.waits, excluded.rounds, excluded.raised, excluded.since,
     excluded.score, excluded.refused, excluded.kind, excluded.reason, excluded.in_flight, excluded.counted, excluded.mixed, excluded.seconds, excluded.ended);

-- LoadsOfHosters counts the visits in flight that count for any of the hosters, by all their hosters.
-- name: LoadsOfHosters :many
select w.hosters::text[] as hosters, count(*) as visits
from scheduler_go.work w
where w.hosters && @hosters::text[] and w.hosters is not null and w.state <> 'settled'
group by w.hosters;

-- RecordRefusedVisits records refused visits, the last of each origin.
-- name: RecordRefusedVisits :exec
insert into scheduler_go.refused_visits as r (url, visit_type, claimed, ended, again, recorded)
select distinct on (1, 2) o.* from (
  select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type, unnest(@claimed::timestamptz[]) as claimed,
         unnest(@ended::double precision[]) as ended, unnest(@again::timestamptz[]) as again, unnest(@heard::timestamptz[]) as recorded) o
order by 1, 2, o.claimed desc
on conflict (url, visit_type) do update
set claimed = excluded.claimed, ended = excluded.ended, again = excluded.again, recorded = excluded.recorded, waits = true
where r.claimed <= excluded.claimed;

-- RefusedVisits returns the last refused visits of the origins. It must follow LanedVisits, like
-- VisitTimeouts.
-- name: RefusedVisits :many
select o.url, o.visit_type, o.claimed, o.ended
from scheduler_go.refused_visits o
join (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type) k
  on o.url = k.url and o.visit_type = k.visit_type;

-- WaitingRefusal returns the last visit of an origin if its hoster refused it, and the origin waits to be visited again.
-- name: WaitingRefusal :many
select claimed, again from scheduler_go.refused_visits where url = @url and visit_type = @visit_type and waits;

-- ReleaseRefused lets up to @max_rows origins be visited again whose wait is over, as if their last visit
-- had not been scheduled. It leaves out origins that were scheduled or visited since.
-- name: ReleaseRefused :execrows
with over as materialized (
  select r.url, r.visit_type, r.claimed, r.ended from scheduler_go.refused_visits r
  where r.waits and r.again <= @now order by r.again limit @max_rows::integer for update skip locked
), released as (
  update public.origin_visit_stats s
  set last_scheduled = case when s.last_visit is not null then least(s.last_scheduled, s.last_visit - interval '1 second') end
  from (select * from over order by url, visit_type) o
  where s.url = o.url and s.visit_type = o.visit_type and s.last_scheduled <= o.claimed and (s.last_visit is null or s.last_visit < o.claimed)
)
update scheduler_go.refused_visits r set waits = false from over o where r.url = o.url and r.visit_type = o.visit_type;

-- ForgetRefusals deletes refused visits recorded long ago, hosters whose last refusal and wait are long
-- ago, and the oldest hosters beyond a bound.
-- name: ForgetRefusals :exec
with visits as (
  delete from scheduler_go.refused_visits r where r.recorded < @visits_before and not r.waits
)
delete from scheduler_go.refusing_hosters h
where greatest(h.refused, h.until, h.raised) < @hosters_before
   or h.hoster in (select o.hoster from scheduler_go.refusing_hosters o order by o.refused desc, o.hoster offset @most::bigint);
