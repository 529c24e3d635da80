-- Counts of origins by lister and visit type.

-- UpdateMetrics counts anew, for one lister or all.
-- name: UpdateMetrics :many
select lister_id, visit_type, last_update, origins_known, origins_enabled,
       origins_never_visited, origins_with_pending_changes
from update_metrics(sqlc.narg(lister)::uuid, sqlc.narg(now)::timestamptz);

-- Metrics are the counts as they were last made; what is null does not matter.
-- name: Metrics :many
select * from scheduler_metrics
where (sqlc.narg(lister)::uuid is null or lister_id = sqlc.narg(lister)::uuid)
  and (sqlc.narg(visit_type)::text is null or visit_type = sqlc.narg(visit_type)::text)
order by lister_id, visit_type;
