-- Stats of origin visits, as other programs write and read them. (visitstats.sql has the journal client's
-- statements.)

-- UpsertOriginStats writes stats, each key once. A null field keeps its value. It writes rows in the order
-- of their keys, so that two calls never deadlock.
-- name: UpsertOriginStats :exec
insert into origin_visit_stats as s (
  url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled,
  last_snapshot, next_visit_queue_position, next_position_offset, successive_visits)
select url, visit_type, last_successful, last_visit, last_visit_status, last_scheduled,
       decode(last_snapshot, 'base64'), next_visit_queue_position, next_position_offset, successive_visits
from json_to_recordset(@stats::json) as new (
  url text, visit_type text, last_successful timestamptz, last_visit timestamptz,
  last_visit_status last_visit_status, last_scheduled timestamptz, last_snapshot text,
  next_visit_queue_position bigint, next_position_offset integer, successive_visits integer)
order by url, visit_type
on conflict (url, visit_type) do update
set last_successful = coalesce(excluded.last_successful, s.last_successful),
    last_visit = coalesce(excluded.last_visit, s.last_visit),
    last_visit_status = coalesce(excluded.last_visit_status, s.last_visit_status),
    last_scheduled = coalesce(excluded.last_scheduled, s.last_scheduled),
    last_snapshot = coalesce(excluded.last_snapshot, s.last_snapshot),
    next_visit_queue_position = coalesce(excluded.next_visit_queue_position, s.next_visit_queue_position),
    next_position_offset = excluded.next_position_offset,
    successive_visits = excluded.successive_visits;

-- OriginStats returns the stats of the origins that have any, in the order of the call.
-- name: OriginStats :many
select s.*
from (select unnest(@url::text[]) as url, unnest(@visit_type::text[]) as visit_type,
             generate_subscripts(@url::text[], 1) as position) k
cross join lateral (select v.* from origin_visit_stats v where v.url = k.url and v.visit_type = k.visit_type offset 0) s
order by k.position;

-- SetVisitQueuePosition writes a visit type's position in its queue of visits.
-- name: SetVisitQueuePosition :exec
insert into visit_scheduler_queue_position (visit_type, position)
values (@visit_type, @position)
on conflict (visit_type) do update set position = excluded.position;
