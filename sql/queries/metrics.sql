-- Counts of origins by lister and visit type.

-- UpdateMetrics counts the origins of a lister, or of all listers.
-- name: UpdateMetrics :many
select lister_id, visit_type, last_update, origins_known, origins_enabled,
       origins_never_visited, origins_with_pending_changes
from update_metrics(sqlc.narg(lister)::uuid, sqlc.narg(now)::timestamptz);

-- StaleMetrics returns the lister with origins whose counts are missing or the oldest, if they are older
-- than some seconds. It passes over the listers in skip.
-- name: StaleMetrics :many
select l.id from listers l
cross join lateral (select coalesce(max(m.last_update), '-infinity') as at from scheduler_metrics m where m.lister_id = l.id) counted
where counted.at < now() - make_interval(secs => @seconds::double precision)
  and l.id <> all (@skip::uuid[])
  and exists (select from listed_origins o where o.lister_id = l.id)
order by counted.at, l.id
limit 1;

-- Metrics returns the last counts of a lister or all, and of a visit type or all.
-- name: Metrics :many
select * from scheduler_metrics
where (sqlc.narg(lister)::uuid is null or lister_id = sqlc.narg(lister)::uuid)
  and (sqlc.narg(visit_type)::text is null or visit_type = sqlc.narg(visit_type)::text)
order by lister_id, visit_type;
