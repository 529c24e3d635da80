-- +goose Up
-- Where the configuration has cooldowns that are shorter than the default ones, parked
-- candidates have indexes in the order of each policy, too. A candidate comes in earlier only if
-- the cooldown that ends last is among the shorter ones, so each of these indexes has a part for
-- each such cooldown.
alter table scheduler_go.candidate_build add column if not exists by_cooldown boolean not null default false;
comment on column scheduler_go.candidate_build.by_cooldown is 'Whether parked candidates have indexes by policy too, for cooldowns shorter than the default ones';

-- Seconds are exact (numeric), and those between infinite dates are no error. A far date, to which
-- no cooldown is added, is its own end (candidates_now).
create function scheduler_go.held_by(due timestamptz, last_scheduled timestamptz) returns text
language sql immutable parallel safe
as $$
select case extract(epoch from due at time zone 'UTC') - extract(epoch from last_scheduled at time zone 'UTC')
  when 0 then 'absolute'
  when 43200 then 'absolute'
  when 604800 then 'scheduled'
  else 'visited'
end
$$;
comment on function scheduler_go.held_by(timestamptz, timestamptz) is
  'Which default cooldown of a candidate ends last: absolute, scheduled, or visited (that of its last visit, which failed or found nothing)';

-- The order has it walk the index by date.
create or replace function scheduler_go.unpark_candidates(max_candidates bigint) returns bigint
language sql
set enable_seqscan = off set enable_sort = off set jit = off
as $$
with unparked as (
  update scheduler_go.candidates set parked = false
  where ctid = any(array(
    select c.ctid
    from scheduler_go.candidate_groups g
    cross join lateral (
      select ctid from scheduler_go.candidates
      where visit_type = g.visit_type and parked and due < now()
      order by due
      limit max_candidates
    ) c
    limit max_candidates))
  returning visit_type
)
select count(*) from unparked
$$;
