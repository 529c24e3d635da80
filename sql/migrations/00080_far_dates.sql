-- +goose Up
-- The difference of two dates may be more than an interval holds: PostgreSQL 15
-- then gives a negative one, and PostgreSQL 17 an error, which would stop every
-- drain of the changes that such an origin is among.

-- Stable, as extract is: only so is the function inlined. Seconds are exact
-- (numeric), infinity included; 2^63 microseconds are 9223372036854.775808 s.
create or replace function scheduler_go.lag_behind(last_update timestamptz, last_successful timestamptz) returns interval
language sql stable parallel safe
return case
  when extract(epoch from last_update) - extract(epoch from last_successful) < 9223372036854
  then last_update - last_successful
  else interval '1000000 years' -- more than any other
end;
comment on function scheduler_go.lag_behind(timestamptz, timestamptz) is
  'How much later than the last successful visit the origin changed, where it did; whatever the dates are';

-- The rule of 00030, with that.
create or replace view scheduler_go.candidates_now as
select
  lo.lister_id,
  lo.visit_type,
  due.at as due,
  due.at >= now() as parked,
  lo.last_update,
  lo.first_seen,
  ovs.last_scheduled,
  case when ovs.last_snapshot is not null and lo.last_update > ovs.last_successful
  then scheduler_go.lag_behind(lo.last_update, ovs.last_successful)
  end as lag,
  ovs.next_visit_queue_position as queue_position,
  ovs.last_snapshot is not null as loaded,
  coalesce(ovs.last_visit_status = 'successful', false) as successful,
  lo.url
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
where lo.enabled;

insert into scheduler_go.candidate_changes (visit_type, url)
select visit_type, url from scheduler_go.candidates where lag < '0';

-- +goose Down
-- It stays: the view is the same to what was before.
