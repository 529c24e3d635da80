-- +goose Up
-- Most listers date updates in whole seconds, some in days. An update may so have come after a visit and
-- have a date before it. The policies pools and freshness take an update for unseen until a visit has
-- succeeded after the second, or day, of its date. Candidates show such an origin by a lag of zero.
-- Those from before this migration get it by the check of candidates, within a day.

-- No interval can be added to far dates; their second or day doesn't matter. Stable, so that the function is inlined.
create or replace function scheduler_go.update_ends(last_update timestamptz) returns timestamptz
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

create or replace function scheduler_go.lag_of(last_update timestamptz, last_successful timestamptz) returns interval
language sql stable parallel safe
as $$
select case
  when last_update > last_successful then scheduler_go.lag_behind(last_update, last_successful)
  when scheduler_go.update_ends(last_update) > last_successful then interval '0'
end
$$;
comment on function scheduler_go.lag_of(timestamptz, timestamptz) is
  'How much later than the last successful visit an origin changed; zero if the dates do not tell which came first; null if it did not change';
comment on column scheduler_go.candidates.lag is
  'How much later than its last successful visit it changed; zero: the dates do not tell which came first; null: it did not, or was never loaded';

create or replace view scheduler_go.candidates_now as
select
  lo.lister_id,
  lo.visit_type,
  due.at as due,
  due.at >= now() as parked,
  lo.last_update,
  lo.first_seen,
  ovs.last_scheduled,
  case when ovs.last_snapshot is not null then scheduler_go.lag_of(lo.last_update, ovs.last_successful) end as lag,
  ovs.next_visit_queue_position as queue_position,
  ovs.last_snapshot is not null as loaded,
  coalesce(ovs.last_visit_status = 'successful', false) as successful,
  lo.url,
  lo.is_fork is true and (select by_fork from scheduler_go.candidate_build) as fork,
  case when (select by_freshness from scheduler_go.candidate_build)
  then scheduler_go.moment_of(lo.visit_type, lo.url, lo.lister_id, lo.first_seen, lo.last_update, ovs.last_snapshot is not null, ovs.last_successful)
  end as moment
from listed_origins lo
left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
cross join lateral (select greatest(
  '-infinity',
  ovs.last_scheduled + case when ovs.last_scheduled < '200000-01-01Z' then interval '12 hours' else interval '0' end,
  case when ovs.last_scheduled < ovs.last_visit then null
  else ovs.last_scheduled + case when ovs.last_scheduled < '200000-01-01Z' then interval '168 hours' else interval '0' end
  end,
  case when ovs.last_visit is null and ovs.last_visit_status in ('failed', 'not_found') then 'infinity'
  else ovs.last_visit + case
    when ovs.last_visit >= '200000-01-01Z' then interval '0'
    when ovs.last_visit_status = 'failed' then interval '336 hours'
    when ovs.last_visit_status = 'not_found' then interval '744 hours'
    end
  end
) as at) due
where lo.enabled
  and (select true from scheduler_go.set_aside_origins s
       where s.lister_id = lo.lister_id and s.url = lo.url and s.visit_type = lo.visit_type) is null;

-- Between a visit and the end of the second, or day, of an update's date, a visit can't tell whether the
-- origin has changed since: the moment is not before that.
create or replace function scheduler_go.moment_of(for_visit_type text, for_url text, for_lister uuid, first_seen timestamptz, last_update timestamptz, loaded boolean, last_successful timestamptz)
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
