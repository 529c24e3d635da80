-- +goose Up
-- Parked candidates have indexes in the order of each policy, too, for cooldowns that are
-- shorter than the default ones. A candidate comes in earlier only if the cooldown that ends last
-- is among the shorter ones, so each of these indexes has a part for each such cooldown.
--
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
