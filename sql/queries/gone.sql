-- Full listings, and origins that are gone from their forge.

-- LastListings returns the last runs of each task of the types, up to 3 a task, that started since a moment.
-- name: LastListings :many
select t.type, t.arguments, r.id, r.status, r.scheduled, r.started, r.ended
from task t
cross join lateral (
  select * from task_run o where o.task = t.id and o.started >= @since::timestamptz order by o.started desc limit 3
) r
where t.type = any(@types::text[]);

-- FullListings returns the state of all listers, and when their last listings ended. Listers without a row
-- have the state none.
-- name: FullListings :many
select l.id, l.name, l.instance_name, coalesce(e.finished, 'epoch')::timestamptz as last_end, coalesce(e.previous, 'epoch')::timestamptz as previous_end,
       coalesce(f.examined, 0)::bigint as examined, coalesce(f.doubt, '')::text as doubt, coalesce(f.cutoffs, '{}')::timestamptz[] as cutoffs,
       f.run, f.ended, f.cutoff, coalesce(f.state, 'none')::text as state,
       coalesce(f.after_url, '')::text as after_url, coalesce(f.after_visit_type, '')::text as after_visit_type,
       coalesce(f.enabled, 0)::bigint as enabled, coalesce(f.missing, 0)::bigint as missing, coalesce(f.allowed, 0)::bigint as allowed,
       coalesce(f.disabled, 0)::bigint as disabled, f.decided, coalesce(f.gone, 0)::bigint as gone, coalesce(f.back, 0)::bigint as back
from listers l
left join scheduler_go.listings e on e.lister_id = l.id
left join scheduler_go.full_listings f on f.lister_id = l.id
order by l.name, l.instance_name;

-- NoteExamined records that the runs up to a number were examined, and why the newest is no full listing.
-- name: NoteExamined :exec
insert into scheduler_go.full_listings as f (lister_id, examined, doubt) values (@lister_id, @examined, @doubt)
on conflict (lister_id) do update set examined = excluded.examined, doubt = excluded.doubt;

-- BeginFullListing begins to count the origins that a full listing lacks, if as many listings in a row are
-- known as the rule needs. It replaces the listing before.
-- name: BeginFullListing :exec
update scheduler_go.full_listings f
set run = @run::bigint, ended = @ended::timestamptz, cutoffs = n.cutoffs, cutoff = n.cutoffs[@listings::integer],
    state = case when n.cutoffs[@listings::integer] is null then 'done' else 'counting' end,
    after_url = '', after_visit_type = '', enabled = 0, missing = 0, allowed = 0, disabled = 0, decided = null
from (select (array_prepend(@cutoff::timestamptz, o.cutoffs))[1:10] as cutoffs from scheduler_go.full_listings o where o.lister_id = @lister_id) n
where f.lister_id = @lister_id;

-- LockFullListing returns the state of a lister, which it locks.
-- name: LockFullListing :many
select * from scheduler_go.full_listings where lister_id = @lister_id for update;

-- CountMissing counts a number of a lister's origins after one, in the order of their keys: the enabled
-- ones, and those of them that were last seen before the cutoff. It returns the last origin.
-- name: CountMissing :one
with part as (
  select lo.url, lo.visit_type, lo.enabled, lo.last_seen from listed_origins lo
  where lo.lister_id = @lister_id and (lo.url, lo.visit_type) > (@after_url::text, @after_visit_type::text)
  order by lo.url, lo.visit_type limit @most::bigint
)
select count(*) as origins, count(*) filter (where enabled) as enabled, count(*) filter (where enabled and last_seen < @cutoff::timestamptz) as missing,
       coalesce((array_agg(url order by url desc, visit_type desc))[1], '')::text as last_url,
       coalesce((array_agg(visit_type order by url desc, visit_type desc))[1], '')::text as last_visit_type
from part;

-- StepFullListing records the place of a count, or of the disabling, and adds to its counts.
-- name: StepFullListing :exec
update scheduler_go.full_listings
set after_url = @after_url, after_visit_type = @after_visit_type, enabled = enabled + @enabled, missing = missing + @missing,
    disabled = disabled + @disabled, gone = gone + @disabled
where lister_id = @lister_id;

-- DecideFullListing ends the count of a listing, or its disabling, with a state.
-- name: DecideFullListing :exec
update scheduler_go.full_listings
set state = @state, allowed = @allowed, after_url = '', after_visit_type = '', decided = now()
where lister_id = @lister_id;

-- AnswerHeldListing ends the hold of a run's listing with an operator's decision.
-- name: AnswerHeldListing :execrows
update scheduler_go.full_listings
set state = @state, after_url = '', after_visit_type = '', decided = now()
where lister_id = @lister_id and run = @run::bigint and state = 'held';

-- DisableMissing disables those of a range of a lister's origins, in the order of their keys, that were
-- last seen before the cutoff. It locks them in that order, as listers do, and records them.
-- name: DisableMissing :execrows
with found as (
  select o.url, o.visit_type from listed_origins o
  where o.lister_id = @lister_id and (o.url, o.visit_type) > (@after_url::text, @after_visit_type::text)
    and (o.url, o.visit_type) <= (@last_url::text, @last_visit_type::text) and o.enabled and o.last_seen < @cutoff
  order by o.url, o.visit_type
  for no key update
), disabled as (
  update listed_origins o set enabled = false
  from found f where o.lister_id = @lister_id and o.url = f.url and o.visit_type = f.visit_type
  returning o.url, o.visit_type
)
insert into scheduler_go.gone_origins as g (lister_id, url, visit_type, ended)
select @lister_id, d.url, d.visit_type, @ended from disabled d
on conflict (lister_id, url, visit_type) do update set ended = excluded.ended, disabled = excluded.disabled;

-- MissingOrigins returns origins of a lister that the last full listing lacks, in the order of their keys.
-- name: MissingOrigins :many
select o.url, o.visit_type, o.last_seen
from scheduler_go.full_listings f
join listed_origins o on o.lister_id = f.lister_id and o.enabled and o.last_seen < f.cutoff
where f.lister_id = @lister_id
order by o.url, o.visit_type limit @most;

-- GoneOrigin returns since when an origin is disabled because a full listing lacks it, and when that ended.
-- name: GoneOrigin :many
select g.ended, g.disabled from scheduler_go.gone_origins g
where g.lister_id = @lister_id and g.url = @url and g.visit_type = @visit_type;

-- GonePlaces returns the first number of gone origins, and the one after the last.
-- name: GonePlaces :one
select coalesce(min(id), 1)::bigint as first, (coalesce(max(id), 0) + 1)::bigint as end from scheduler_go.gone_origins;

-- TakeBack deletes the gone origins of a range of numbers that are listed again, or too old, and counts the
-- former.
-- name: TakeBack :exec
with again as (
  delete from scheduler_go.gone_origins g
  using listed_origins o
  where g.id >= @first::bigint and g.id < @next::bigint and o.lister_id = g.lister_id and o.url = g.url and o.visit_type = g.visit_type and o.enabled
  returning g.lister_id
), old as (
  delete from scheduler_go.gone_origins g where g.id >= @first::bigint and g.id < @next::bigint and (g.disabled < @before or g.id < @oldest::bigint)
)
update scheduler_go.full_listings f set back = f.back + a.origins
from (select lister_id, count(*) as origins from again group by lister_id) a
where f.lister_id = a.lister_id;

-- ForgetFullListings deletes the states of listers that are gone.
-- name: ForgetFullListings :exec
delete from scheduler_go.full_listings f where not exists (select from listers l where l.id = f.lister_id);

-- GoneFigures returns, by name of a lister, the instances whose last full listing is held back, the origins
-- that full listings disabled, and those that were listed again.
-- name: GoneFigures :many
select l.name as lister, count(*) filter (where f.state = 'held') as held, count(*) filter (where f.doubt <> '') as doubtful,
       sum(f.gone)::bigint as gone, sum(f.back)::bigint as back
from scheduler_go.full_listings f join listers l on l.id = f.lister_id
group by l.name;
