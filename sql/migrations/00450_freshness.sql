-- +goose Up
alter table scheduler_go.freshness_control add column complete boolean not null default false;
comment on column scheduler_go.freshness_control.complete is 'Whether the moments of all its origins have been computed';
comment on column scheduler_go.freshness.listed is 'Until when the estimate knows of changes, where the lister tells of updates';

-- Dates of success that no calendar reaches are those of a clock that was wrong: they don't count.
create function scheduler_go.last_seen_fresh(loaded boolean, seen timestamptz, last_successful timestamptz) returns timestamptz
language sql immutable parallel safe
as $$ select case when loaded then greatest(seen, case when last_successful < '2200-01-01Z' then greatest(last_successful, '1900-01-01Z') end) end $$;
comment on function scheduler_go.last_seen_fresh(boolean, timestamptz, timestamptz) is
  'The last visit of an origin that succeeded, as far as the policy freshness or the stats know; null if there was none';

create or replace function scheduler_go.moment_of(for_visit_type text, for_url text, for_lister uuid, first_seen timestamptz, last_update timestamptz, loaded boolean, last_successful timestamptz)
returns timestamptz language sql stable parallel safe
as $$
select case when s.seen is null then s.at when not s.stale then f.moment + greatest(s.at - f.seen, '0')
  else s.at + make_interval(secs => least(k.longest, 86400 * (
    s.each * (1 - exp(-least(s.updated / s.each, 700))) + sqrt(s.each * s.each + 2 * s.worth) - s.each)))
  end
from scheduler_go.freshness_control k
left join scheduler_go.freshness f on f.origin = hashtextextended(for_visit_type || ' ' || for_url, 0)
left join scheduler_go.freshness_listers p on p.visit_type = for_visit_type and p.lister_id = for_lister
cross join lateral (select scheduler_go.last_seen_fresh(loaded, f.seen, last_successful) as seen) v
cross join lateral (select
  greatest(least(coalesce(v.seen, first_seen), '2200-01-01Z'), '1900-01-01Z') as at,
  greatest(least(last_update, '2200-01-01Z'), '1900-01-01Z') as told
) d
cross join lateral (select
  d.at, v.seen,
  f.origin is null or coalesce(last_update > v.seen, false) as stale,
  case when v.seen is not null and last_update is not null then greatest(extract(epoch from d.told - d.at) / 86400, 0)::double precision else 0 end as updated,
  coalesce(f.days::double precision / nullif(f.changes, 0), p.days::double precision / p.changes, k.days / k.changes) as each,
  k.applied * greatest(coalesce(f.cost, k.cost), 1) / 86400 as worth
) s
where k.visit_type = for_visit_type
$$;
