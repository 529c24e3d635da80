-- Hosters: their visits in flight, and their recent claims.

-- LockHosters serializes claims of visits, so that no two take the same capacity.
-- name: LockHosters :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler hosters', 0));

-- HosterLoads counts the visits in flight of some hosters and the visits claimed since a moment, with the pace they use. It
-- leaves out visits that began too long before the moment up to which ends are known. began() gives the time of their
-- beginning. The rows of other hosters are incomplete.
-- name: HosterLoads :many
select hoster::text as hoster, sum(in_flight)::bigint as in_flight, sum(claimed)::bigint as claimed,
       coalesce(max(paced), to_timestamp(0))::timestamptz as paced
from (
  select unnest(w.hosters) as hoster, 1 as in_flight, 0 as claimed, null::timestamptz as paced
  from scheduler_go.work w
  where w.hosters && @hosters::text[] and w.hosters is not null and w.state <> 'settled'
    and (w.started is null or scheduler_go.began(w.started, w.since, @now)
         >= (select extract(epoch from scheduler_go.ends_known(@now))::double precision) - @lost_after::double precision)
  union all
  select c.hoster, 0, c.visits, c.paced from scheduler_go.hoster_claims c
  where c.claimed > @claimed_after and c.claimed - interval '1 minute' <= @now
) l
group by hoster;

-- AllHosterLoads counts as HosterLoads does, for all hosters. It reads all visits in flight.
-- name: AllHosterLoads :many
select hoster::text as hoster, sum(in_flight)::bigint as in_flight, sum(claimed)::bigint as claimed,
       coalesce(max(paced), to_timestamp(0))::timestamptz as paced
from (
  select unnest(v.hosters) as hoster, v.in_flight, 0 as claimed, null::timestamptz as paced
  from (
    select w.hosters, count(*) as in_flight
    from scheduler_go.work w
    where w.hosters is not null and w.state <> 'settled'
      and (w.started is null or scheduler_go.began(w.started, w.since, @now)
           >= (select extract(epoch from scheduler_go.ends_known(@now))::double precision) - @lost_after::double precision)
    group by w.hosters
  ) v
  union all
  select c.hoster, 0, c.visits, c.paced from scheduler_go.hoster_claims c
  where c.claimed > @claimed_after and c.claimed - interval '1 minute' <= @now
) l
group by hoster;

-- HosterListers returns the hoster of each lister's instance.
-- name: HosterListers :many
select id, (name || '/' || instance_name)::text as hoster from listers;

-- AddHosterClaims records the number of claimed visits by hoster, and deletes old rows.
-- name: AddHosterClaims :exec
with forgotten as (
  delete from scheduler_go.hoster_claims old where old.claimed <= @forget_until or old.claimed - interval '1 minute' > @claimed
)
insert into scheduler_go.hoster_claims (hoster, claimed, visits, paced)
select unnest(@hosters::text[]), @claimed, unnest(@visits::integer[]), nullif(unnest(@paced::timestamptz[]), to_timestamp(0));
