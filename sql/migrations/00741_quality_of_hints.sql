-- +goose Up
-- News that is a hint is as good as its source's hints: hint_sources counts the visits after them, and those that found
-- something. Otherwise this is the function of 00700.
-- +goose StatementBegin
create or replace function scheduler_go.moment_of(for_visit_type text, for_url text, for_lister uuid, first_seen timestamptz, last_update timestamptz, loaded boolean, last_successful timestamptz)
returns timestamptz language sql stable parallel safe
as $$
select case when s.seen is null then s.at when not s.stale then f.moment + greatest(s.at - f.seen, '0')
  else greatest(case when last_update <= s.seen then scheduler_go.update_ends(last_update) end,
    s.at + make_interval(secs => least(k.longest, 86400 * case when f.wait is null
    then s.each * (1 - exp(-least(s.updated / s.each, 700))) + sqrt(s.each * s.each + 2 * s.worth) - s.each
    else s.updated + greatest(f.wait - coalesce(s.updated * s.expected / nullif(2 * s.updated + s.expected, 0), 0), 0) / s.precise end)))
  end
from scheduler_go.freshness_control k
left join scheduler_go.freshness f on f.origin = hashtextextended(for_visit_type || ' ' || for_url, 0)
left join scheduler_go.freshness_listers p on p.visit_type = for_visit_type and p.lister_id = for_lister
left join scheduler_go.freshness_news n on n.visit_type = for_visit_type and n.lister_id = for_lister
left join scheduler_go.hints h on h.origin = f.origin and h.moved and h.visited is null and h.changed_at = last_update
left join scheduler_go.hint_sources e on e.source = h.source
cross join lateral (select scheduler_go.last_seen_fresh(loaded, f.seen, last_successful) as seen) v
cross join lateral (select
  greatest(least(coalesce(v.seen, first_seen), '2200-01-01Z'), '1900-01-01Z') as at,
  greatest(least(last_update, case when f.news > v.seen then f.news end, '2200-01-01Z'), '1900-01-01Z') as told
) d
cross join lateral (select
  case when v.seen is not null and last_update is not null then greatest(extract(epoch from d.told - d.at) / 86400, 0)::double precision else 0 end as updated,
  least(greatest((coalesce(n.reported, 0) + 4.5) / (coalesce(n.reported + n.missed, 0) + 5), 0.01), 0.995)::double precision as recall,
  case when f.changes > 0 then f.changes else coalesce(p.changes, k.changes) end::double precision as changes,
  case when f.changes > 0 then f.days else coalesce(p.days, k.days) end::double precision as days
) u
cross join lateral (select
  d.at, v.seen, u.updated,
  f.origin is null or coalesce(scheduler_go.update_ends(last_update) > v.seen, false) as stale,
  u.days / u.changes as each,
  u.changes / (u.days + u.recall * greatest(u.updated - 1, 0))
    * ((1 - u.recall) * (u.updated ^ 2 - least(u.updated, 1) ^ 2) + least(u.updated, 1) ^ 2) as expected,
  least(greatest(case when e.source is not null
      then (e.found + 4.5) / (e.visits + 5)
      else (coalesce(n.right_news, 0) + 4.5) / (coalesce(n.right_news + n.wrong_news, 0) + 5) end,
    0.05), 0.999)::double precision as precise,
  k.applied * greatest(coalesce(f.cost, k.cost), 1) / 86400 as worth
) s
where k.visit_type = for_visit_type
$$;
-- +goose StatementEnd
