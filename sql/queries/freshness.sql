-- The policy freshness: estimates of how often origins change, and its control.

-- ConfigureFreshness sets the visit types with the policy. For a new one, the walk over candidates starts
-- over at once.
-- name: ConfigureFreshness :exec
with gone as (
  delete from scheduler_go.freshness_control where visit_type <> all(@visit_types::text[])
), begun as (
  update scheduler_go.walks set place = null, so_far = '{}', began = '-infinity'
  where name = @walk::text and exists (select unnest(@visit_types::text[]) except select visit_type from scheduler_go.freshness_control)
)
insert into scheduler_go.freshness_control as k (visit_type, longest, cost, changes, days, threshold, applied)
select unnest(@visit_types::text[]), unnest(@longest::double precision[]), @cost::double precision, @changes::double precision, @days::double precision,
       @threshold::double precision, @threshold
on conflict (visit_type) do update set longest = excluded.longest, cost = excluded.cost, changes = excluded.changes, days = excluded.days
where (k.longest, k.cost, k.changes, k.days) is distinct from (excluded.longest, excluded.cost, excluded.changes, excluded.days);

-- FreshnessControl returns the state of the control of a visit type.
-- name: FreshnessControl :many
select threshold, stepped, complete from scheduler_go.freshness_control where visit_type = @visit_type;

-- StepFreshness writes the state of a control.
-- name: StepFreshness :exec
update scheduler_go.freshness_control set threshold = @threshold, stepped = @stepped where visit_type = @visit_type;

-- ApplyThresholds marks the current thresholds as those of the next computation of moments.
-- name: ApplyThresholds :exec
update scheduler_go.freshness_control set applied = threshold where applied <> threshold;

-- OriginFreshness returns the estimates and stats of listed origins whose visit types have the policy. Go's
-- zero time stands for null.
-- name: OriginFreshness :many
select key.url::text as url, key.visit_type::text as visit_type, lo.lister_id, k.longest, k.complete,
  (k.applied / coalesce(g.weight, 1))::double precision as threshold, coalesce(g.weight, 1)::double precision as weight,
  coalesce(f.changes, 0)::double precision as changes, coalesce(f.days, 0)::double precision as days,
  coalesce(scheduler_go.last_seen_fresh(s.last_snapshot is not null, f.seen, s.last_successful), '0001-01-01Z')::timestamptz as seen,
  coalesce(f.updated, '0001-01-01Z')::timestamptz as updated, coalesce(f.listed, '0001-01-01Z')::timestamptz as listed,
  coalesce(f.news, '0001-01-01Z')::timestamptz as news,
  coalesce(case when e.source is null then n.right_news else e.found end, 0)::double precision as right_news,
  coalesce(case when e.source is null then n.wrong_news else e.visits - e.found end, 0)::double precision as wrong_news,
  coalesce(e.source, '') as hint_source,
  coalesce(n.reported, 0)::double precision as reported, coalesce(n.missed, 0)::double precision as missed,
  least(greatest(lo.first_seen, '1900-01-01Z'), '2200-01-01Z')::timestamptz as first_seen,
  coalesce(case when isfinite(lo.last_update) then least(greatest(lo.last_update, '1900-01-01Z'), '2200-01-01Z') end, '0001-01-01Z')::timestamptz as last_update,
  least(greatest(lo.last_seen, g.finished, '1900-01-01Z'), '2200-01-01Z')::timestamptz as last_seen,
  -- The time between the last two listings; a day if it is unknown.
  least(greatest(coalesce(extract(epoch from g.finished) - extract(epoch from g.previous), 86400), 3600), 1e8)::double precision as listing,
  coalesce(lo.is_fork, false)::boolean as fork,
  coalesce(p.changes, k.changes)::double precision as prior_changes, coalesce(p.days, k.days)::double precision as prior_days,
  coalesce(case when m.at_least then 2 * m.seconds else m.seconds end, k.cost)::double precision as cost, k.cost as typical_cost
from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type) key
join scheduler_go.freshness_control k on k.visit_type = key.visit_type
join lateral (
  select * from listed_origins lo where lo.url = key.url and lo.visit_type = key.visit_type
  order by lo.enabled desc, lo.last_update desc nulls last limit 1
) lo on true
left join origin_visit_stats s on s.url = key.url and s.visit_type = key.visit_type
left join scheduler_go.freshness f on f.origin = hashtextextended(key.visit_type || ' ' || key.url, 0)
left join scheduler_go.listings g on g.lister_id = lo.lister_id
left join scheduler_go.freshness_listers p on p.visit_type = key.visit_type and p.lister_id = lo.lister_id
left join scheduler_go.freshness_news n on n.visit_type = key.visit_type and n.lister_id = lo.lister_id
-- The news is a hint that no visit has followed.
left join scheduler_go.hints h on h.origin = hashtextextended(key.visit_type || ' ' || key.url, 0) and h.moved and h.visited is null and h.changed_at = lo.last_update
left join scheduler_go.hint_sources e on e.source = h.source
left join scheduler_go.lane_memory m on m.memory = hashtextextended('load-' || key.visit_type || ' ' || key.url, 0);

-- WriteFreshness writes estimates of origins, unless the row has a later visit.
-- name: WriteFreshness :exec
insert into scheduler_go.freshness as f (origin, changes, days, cost, seen, updated, listed, moment, news, wait)
select v.origin, v.changes, v.days, v.cost, v.seen, v.updated, v.listed, v.moment, v.news, v.wait
from (select hashtextextended(unnest(@visit_types::text[]) || ' ' || unnest(@urls::text[]), 0) as origin,
             unnest(@changes::real[]) as changes, unnest(@days::real[]) as days, unnest(@cost::real[]) as cost,
             unnest(@seen::timestamptz[]) as seen, nullif(unnest(@updated::timestamptz[]), '0001-01-01Z') as updated,
             nullif(unnest(@listed::timestamptz[]), '0001-01-01Z') as listed,
             unnest(@moments::timestamptz[]) as moment,
             nullif(unnest(@news::timestamptz[]), '0001-01-01Z') as news, unnest(@waits::real[]) as wait) v
order by v.origin
on conflict (origin) do update
set changes = excluded.changes, days = excluded.days, cost = excluded.cost, seen = excluded.seen, updated = excluded.updated, listed = excluded.listed, moment = excluded.moment,
  news = excluded.news, wait = excluded.wait
where f.seen <= excluded.seen;

-- FreshCandidates lists the origins on a range of pages of candidates that need a moment or have one. If a
-- candidate of the origin lacks a moment, it is Go's zero time.
-- name: FreshCandidates :many
select c.url, c.visit_type, (case when bool_and(c.moment is not null) then min(c.moment) else '0001-01-01Z' end)::timestamptz as moment
from scheduler_go.candidates c
where c.ctid >= format('(%s,0)', @first_page::bigint)::tid and c.ctid < format('(%s,0)', @end_page::bigint)::tid
  and (c.moment is not null or c.visit_type in (select k.visit_type from scheduler_go.freshness_control k))
group by c.url, c.visit_type;

-- SetMoments computes the moments of the candidates of the origins on a range of pages. The caller holds
-- the lock of candidates.
-- name: SetMoments :exec
update scheduler_go.candidates c
set moment = n.moment
from scheduler_go.candidates_now n
where c.ctid >= format('(%s,0)', @first_page::bigint)::tid and c.ctid < format('(%s,0)', @end_page::bigint)::tid
  and c.url = any(@urls::text[])
  and n.lister_id = c.lister_id and n.url = c.url and n.visit_type = c.visit_type
  and n.moment is distinct from c.moment;

-- SetListerFreshness writes the result of a whole walk: it replaces the estimates of listers and marks the
-- moments as complete. It does nothing if the walk was cancelled because another visit type got the policy.
-- name: SetListerFreshness :exec
with gone as (
  delete from scheduler_go.freshness_listers l
  where (l.visit_type, l.lister_id) not in (select unnest(@visit_types::text[]), unnest(@listers::uuid[]))
), unlisted as (
  delete from scheduler_go.freshness_news n
  where n.visit_type not in (select visit_type from scheduler_go.freshness_control)
     or n.lister_id not in (select id from listers)
), complete as (
  update scheduler_go.freshness_control set complete = true
  where not complete and exists (select from scheduler_go.walks where name = @walk::text and place is not null)
)
insert into scheduler_go.freshness_listers (visit_type, lister_id, changes, days)
select unnest(@visit_types::text[]), unnest(@listers::uuid[]), unnest(@changes::real[]), unnest(@days::real[])
on conflict (visit_type, lister_id) do update set changes = excluded.changes, days = excluded.days;

-- FreshnessPages counts the pages of the table of estimates.
-- name: FreshnessPages :one
select (pg_relation_size('scheduler_go.freshness') / current_setting('block_size')::bigint)::bigint as pages;

-- ForgetFreshness deletes the estimates on a range of pages whose origin's last successful visit is more
-- than twice the longest wait ago. If no visit type has the policy, the longest wait is @longest.
-- name: ForgetFreshness :exec
delete from scheduler_go.freshness f
using (select make_interval(secs => coalesce(max(longest), @longest::double precision)) as longest from scheduler_go.freshness_control) k
where f.ctid >= format('(%s,0)', @first_page::bigint)::tid and f.ctid < format('(%s,0)', @end_page::bigint)::tid
  and f.seen + 2 * k.longest < @now::timestamptz;

-- RecordNews adds observations to the quality of listers' news, of about 1,000 each (freshness.MostObserved): older
-- ones fade. It
-- locks rows in the order of keys.
-- name: RecordNews :exec
insert into scheduler_go.freshness_news as n (visit_type, lister_id, right_news, wrong_news, reported, missed)
select v.visit_type, v.lister_id, v.right_news, v.wrong_news, v.reported, v.missed
from (select unnest(@visit_types::text[]) as visit_type, unnest(@listers::uuid[]) as lister_id,
             unnest(@right_news::real[]) as right_news, unnest(@wrong_news::real[]) as wrong_news,
             unnest(@reported::real[]) as reported, unnest(@missed::real[]) as missed) v
order by v.visit_type, v.lister_id
on conflict (visit_type, lister_id) do update
set right_news = (n.right_news + excluded.right_news) * least(1, 1000 / nullif(n.right_news + n.wrong_news, 0)),
    wrong_news = (n.wrong_news + excluded.wrong_news) * least(1, 1000 / nullif(n.right_news + n.wrong_news, 0)),
    reported = (n.reported + excluded.reported) * least(1, 1000 / nullif(n.reported + n.missed, 0)),
    missed = (n.missed + excluded.missed) * least(1, 1000 / nullif(n.reported + n.missed, 0));

-- SetListerWeight sets the weight of a lister of which a listing has ended.
-- name: SetListerWeight :execrows
update scheduler_go.listings set weight = @weight where lister_id = @lister_id;

-- ListerWeights lists the listers with a weight other than 1.
-- name: ListerWeights :many
select l.name, l.instance_name, g.weight
from scheduler_go.listings g join listers l on l.id = g.lister_id
where g.weight <> 1
order by l.name, l.instance_name;
