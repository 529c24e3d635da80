-- Hints: news of sources outside that origins have changed.

-- HintedOrigins returns the origins of some URLs, with what decides about hints of them. A date that is not recorded is
-- the first one, and infinite dates are the first or the last one.
-- name: HintedOrigins :many
select lo.lister_id, lo.url, lo.visit_type, lo.enabled,
       least(greatest(lo.last_update, '0001-01-01Z'), '9999-12-31Z')::timestamptz as last_update,
       least(greatest(ovs.last_scheduled, '0001-01-01Z'), '9999-12-31Z')::timestamptz as last_scheduled,
       least(greatest(ovs.last_visit, '0001-01-01Z'), '9999-12-31Z')::timestamptz as last_visit, ovs.last_snapshot
from listed_origins lo
left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
where lo.url = any(@urls::text[]);

-- MoveHinted sets the last update of enabled origins, unless they have that date or a later one, and
-- returns those that it set. It locks rows in the order of their keys, as listers do.
-- name: MoveHinted :many
with moved as materialized (
  select lo.lister_id, lo.url, lo.visit_type, h.changed_at
  from (select unnest(@lister_id::uuid[]) as lister_id, unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type,
               unnest(@changed_at::timestamptz[]) as changed_at) h
  join listed_origins lo on lo.lister_id = h.lister_id and lo.url = h.url and lo.visit_type = h.visit_type
  where lo.enabled and (lo.last_update is null or lo.last_update < h.changed_at)
  order by lo.lister_id, lo.url, lo.visit_type
  for no key update of lo
)
update listed_origins lo set last_update = moved.changed_at
from moved
where lo.lister_id = moved.lister_id and lo.url = moved.url and lo.visit_type = moved.visit_type
returning lo.lister_id, lo.url, lo.visit_type;

-- NoteHints records the last hint of each origin. A hint without a later date replaces the recorded one only if that is
-- older than a minute, and had its visit or is written again over a lister's date: late and repeated hints take nothing
-- from one that waits.
-- name: NoteHints :exec
insert into scheduler_go.hints as h (origin, url, visit_type, source, changed_at, received_at, moved, snapshot, check_at)
select hashtextextended(n.visit_type || ' ' || n.url, 0), n.url, n.visit_type, n.source, n.changed_at, now(), n.moved, n.snapshot, now() + interval '1 minute'
from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type, unnest(@source::text[]) as source,
             unnest(@changed_at::timestamptz[]) as changed_at, unnest(@moved::boolean[]) as moved, unnest(@snapshot::bytea[]) as snapshot) n
order by 1
on conflict (origin) do update set
  url = excluded.url, visit_type = excluded.visit_type, source = excluded.source, changed_at = excluded.changed_at, received_at = excluded.received_at,
  moved = excluded.moved, snapshot = excluded.snapshot, visited = null, found = null, check_at = excluded.check_at
where excluded.changed_at > h.changed_at or excluded.received_at > h.received_at + interval '1 minute'
  and (h.visited is not null or excluded.moved and excluded.changed_at = h.changed_at);

-- CountHints adds counts to those of sources. Beyond a number of sources, it counts new ones as others.
-- name: CountHints :exec
insert into scheduler_go.hint_sources as s (source, moved, newer, repeated, unknown, created, disabled, refused, first_hint, last_hint)
select case when n.source in (select k.source from scheduler_go.hint_sources k) or (select count(*) from scheduler_go.hint_sources) < @max_sources::bigint
         then n.source else 'others' end,
       sum(n.moved), sum(n.newer), sum(n.repeated), sum(n.unknown), sum(n.created), sum(n.disabled), sum(n.refused), now(), now()
from (select unnest(@source::text[]) as source, unnest(@moved::bigint[]) as moved, unnest(@newer::bigint[]) as newer,
             unnest(@repeated::bigint[]) as repeated, unnest(sqlc.arg('unknown')::bigint[]) as unknown, unnest(@created::bigint[]) as created,
             unnest(@disabled::bigint[]) as disabled, unnest(@refused::bigint[]) as refused) n
group by 1
order by 1
on conflict (source) do update set
  moved = s.moved + excluded.moved, newer = s.newer + excluded.newer, repeated = s.repeated + excluded.repeated,
  unknown = s.unknown + excluded.unknown, created = s.created + excluded.created, disabled = s.disabled + excluded.disabled,
  refused = s.refused + excluded.refused, last_hint = greatest(s.last_hint, excluded.last_hint);

-- TransactionTime returns the date of the transaction.
-- name: TransactionTime :one
select now()::timestamptz as now;

-- CreateHinted adds origins, and returns the URLs of those that it added.
-- name: CreateHinted :many
insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
select @lister_id::uuid, n.url, n.visit_type, '{}', true, now(), n.changed_at
from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type, unnest(@changed_at::timestamptz[]) as changed_at) n
order by n.url, n.visit_type
on conflict do nothing
returning url, visit_type;

-- CountListed counts the origins of a lister, up to a bound.
-- name: CountListed :one
select count(*) from (select from listed_origins where lister_id = @lister_id::uuid limit @bound) o;

-- LastHints returns the last hint of each visit type of a URL.
-- name: LastHints :many
select url, visit_type, source, changed_at, received_at, moved, visited, found from scheduler_go.hints
where origin = any(select hashtextextended(t || ' ' || @url::text, 0) from unnest(@visit_types::text[]) t) and url = @url::text
order by visit_type;

-- HintSources returns the counts of all sources.
-- name: HintSources :many
select * from scheduler_go.hint_sources order by source;

-- OverwrittenHints returns the origins of due hints whose last update has to move again, with the dates. A lister has set
-- it to an earlier date or to none before the visit, or the visit was claimed before the change and ended after it, so
-- that it may have missed the change. Due are those that SettleHints checks next.
-- name: OverwrittenHints :many
select lo.lister_id, lo.url, lo.visit_type, m.changed_at::timestamptz as changed_at
from (select url, visit_type, changed_at, moved from scheduler_go.hints
  where visited is null and check_at <= now() order by check_at limit @most) h
join listed_origins lo on lo.url = h.url and lo.visit_type = h.visit_type
left join origin_visit_stats ovs on ovs.url = h.url and ovs.visit_type = h.visit_type
cross join lateral (select case
  when h.moved and ovs.last_scheduled < h.changed_at and ovs.last_successful > h.changed_at and ovs.last_successful <= now()
    then ovs.last_successful + interval '1 microsecond'
  when ovs.last_visit is null or ovs.last_visit < h.changed_at then h.changed_at end as changed_at) m
where lo.enabled and m.changed_at is not null and (lo.last_update is null or lo.last_update < m.changed_at);

-- SettleHints checks hints without a known visit, and counts the first visits after them that succeeded.
-- It returns how many it checked. A hint waits for its next check a quarter of its age, and a minute. A hint
-- during a visit, as in OverwrittenHints, then is one of the moment after the visit.
-- name: SettleHints :one
with due as materialized (
  select h.origin, h.url, h.visit_type, h.changed_at, h.received_at, h.moved, h.snapshot from scheduler_go.hints h
  where h.visited is null and h.check_at <= now() order by h.check_at limit @most for no key update skip locked
), checked as materialized (
  select d.origin, ovs.last_snapshot,
    case when ovs.last_successful > d.received_at and isfinite(ovs.last_successful) then ovs.last_successful end as visited,
    case when ovs.last_successful > d.received_at and isfinite(ovs.last_successful) then ovs.last_snapshot is distinct from d.snapshot end as found,
    case when d.moved and ovs.last_scheduled < d.changed_at and ovs.last_successful > d.changed_at and ovs.last_successful <= now()
      then ovs.last_successful + interval '1 microsecond' end as again
  from due d
  left join origin_visit_stats ovs on ovs.url = d.url and ovs.visit_type = d.visit_type
), settled as (
  update scheduler_go.hints h
  set visited = case when c.again is null then c.visited end, found = case when c.again is null then c.found end,
      changed_at = coalesce(c.again, h.changed_at), received_at = greatest(h.received_at, c.again),
      snapshot = case when c.again is null then h.snapshot else c.last_snapshot end,
      check_at = now() + (now() - h.received_at) / 4 + interval '1 minute'
  from checked c
  where h.origin = c.origin
  returning h.source, c.visited, c.found
), counted as (
  update scheduler_go.hint_sources s set visits = s.visits + n.visits, found = s.found + n.found
  from (select source, count(visited) as visits, count(*) filter (where found) as found from settled group by source having count(visited) > 0) n
  where s.source = n.source
)
select count(*) from settled;

-- ForgetHints deletes old hints, up to a bound, and sources without hints for long.
-- name: ForgetHints :one
with old as (
  delete from scheduler_go.hints where ctid = any(array(
    select ctid from scheduler_go.hints where received_at < now() - interval '30 days' order by received_at limit @most))
  returning 1
), silent as (
  delete from scheduler_go.hint_sources where last_hint < now() - interval '400 days'
)
select count(*) from old;
