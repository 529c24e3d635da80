-- +goose Up
-- The policy freshness: how often origins change, as far as their visits and listers have
-- shown, and when the next visit of each is worth its cost.
create table scheduler_go.freshness_control (
  visit_type text primary key,
  longest    double precision not null,
  cost       double precision not null,
  changes    double precision not null,
  days       double precision not null,
  threshold  double precision not null,
  stepped    timestamptz,
  applied    double precision not null,
  complete   boolean not null default false
) with (fillfactor = 50);

comment on table scheduler_go.freshness_control is 'The visit types with the policy freshness, and the state of its control';
comment on column scheduler_go.freshness_control.longest is 'Seconds that an origin waits for a visit at most';
comment on column scheduler_go.freshness_control.cost is 'Seconds that a visit is expected to take of which nothing is known';
comment on column scheduler_go.freshness_control.changes is 'Estimate of an origin of which nothing is known: so many changes in so many days';
comment on column scheduler_go.freshness_control.threshold is 'What a visit must be worth at present: days times days of staleness saved for each day of a worker';
comment on column scheduler_go.freshness_control.stepped is 'When a claim last adjusted it';
comment on column scheduler_go.freshness_control.applied is 'The threshold by which moments are computed: that of when the last walk over candidates began';
comment on column scheduler_go.freshness_control.complete is 'Whether the moments of all its origins have been computed';

create table scheduler_go.freshness (
  origin  bigint primary key,
  changes real not null,
  days    real not null,
  cost    real not null,
  seen    timestamptz not null,
  updated timestamptz,
  listed  timestamptz,
  moment  timestamptz not null
) with (fillfactor = 80);

comment on table scheduler_go.freshness is 'What visits have shown of how often origins change';
comment on column scheduler_go.freshness.origin is 'Hash of the visit type and the URL; where two have the same one, estimates are wrong, and no more';
comment on column scheduler_go.freshness.changes is 'Estimate: so many changes in so many days; 0: nothing was observed yet';
comment on column scheduler_go.freshness.cost is 'Seconds that a visit is expected to take';
comment on column scheduler_go.freshness.seen is 'The last visit that succeeded';
comment on column scheduler_go.freshness.updated is 'The last update that its lister told of, as far as the estimate knows';
comment on column scheduler_go.freshness.listed is 'Until when the estimate knows of changes, where the lister tells of updates';
comment on column scheduler_go.freshness.moment is 'When the next visit is worth its cost if the lister tells of no update before';

create table scheduler_go.freshness_listers (
  visit_type text not null,
  lister_id  uuid not null,
  changes    real not null,
  days       real not null,
  primary key (visit_type, lister_id)
);

comment on table scheduler_go.freshness_listers is 'How often origins of listers change: the estimate of one of which nothing is known';

-- Dates of success that no calendar reaches are those of a clock that was wrong: they don't count.
create function scheduler_go.last_seen_fresh(loaded boolean, seen timestamptz, last_successful timestamptz) returns timestamptz
language sql immutable parallel safe
as $$ select case when loaded then greatest(seen, case when last_successful < '2200-01-01Z' then greatest(last_successful, '1900-01-01Z') end) end $$;
comment on function scheduler_go.last_seen_fresh(boolean, timestamptz, timestamptz) is
  'The last visit of an origin that succeeded, as far as the policy freshness or the stats know; null if there was none';

-- For origins that are stale for sure, the formula of freshness.Origin.Moment (internal/freshness).
-- Those never visited are due since they were listed. A visit that was not learnt from (the
-- Python journal client applied it) puts the next one off all the same. Far dates are brought
-- near, as no interval can be added to them.
-- Most listers date updates in whole seconds, some in days. An update may so have come after a visit and
-- have a date before it. The policies pools and freshness take an update for unseen until a visit has
-- succeeded after the second, or day, of its date.
-- No interval can be added to far dates; their second or day doesn't matter. Stable, so that the function is inlined.
create function scheduler_go.update_ends(last_update timestamptz) returns timestamptz
language sql stable parallel safe
as $$
select last_update + case
  when last_update not between '1900-01-01Z' and '2200-01-01Z' then interval '0'
  when date_part('epoch', last_update) / 86400 = floor(date_part('epoch', last_update) / 86400) then interval '24 hours'
  when date_part('epoch', last_update) = floor(date_part('epoch', last_update)) then interval '1 second'
  else interval '1 microsecond'
end
$$;
comment on function scheduler_go.update_ends(timestamptz) is
  'Returns the end of the time that the date of an update may mean: of its day (UTC) if it is at midnight, of its second if it is in whole seconds, else of its microsecond';

-- Between a visit and the end of the second, or day, of an update's date, a visit can't tell whether the
-- origin has changed since: the moment is not before that.
create function scheduler_go.moment_of(for_visit_type text, for_url text, for_lister uuid, first_seen timestamptz, last_update timestamptz, loaded boolean, last_successful timestamptz)
returns timestamptz language sql stable parallel safe
as $$
select case when s.seen is null then s.at when not s.stale then f.moment + greatest(s.at - f.seen, '0')
  else greatest(case when last_update <= s.seen then scheduler_go.update_ends(last_update) end,
    s.at + make_interval(secs => least(k.longest, 86400 * (
    s.each * (1 - exp(-least(s.updated / s.each, 700))) + sqrt(s.each * s.each + 2 * s.worth) - s.each))))
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
  f.origin is null or coalesce(scheduler_go.update_ends(last_update) > v.seen, false) as stale,
  case when v.seen is not null and last_update is not null then greatest(extract(epoch from d.told - d.at) / 86400, 0)::double precision else 0 end as updated,
  coalesce(f.days::double precision / nullif(f.changes, 0), p.days::double precision / p.changes, k.days / k.changes) as each,
  k.applied * greatest(coalesce(f.cost, k.cost), 1) / 86400 as worth
) s
where k.visit_type = for_visit_type
$$;
comment on function scheduler_go.moment_of(text, text, uuid, timestamptz, timestamptz, boolean, timestamptz) is
  'When a visit of an origin is worth its cost; null if its visit type is not in freshness_control';
