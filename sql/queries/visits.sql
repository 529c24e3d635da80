-- Visits: statements for the grab. sql/origins/grab.go builds the grab's own query.

-- LockVisitType serializes the grabs of one visit type.
-- name: LockVisitType :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler visits ' || @visit_type::text, 0));

-- FilteredListers lists the listers with an id, a name and an instance name; "" matches any.
-- name: FilteredListers :many
select id from listers
where (sqlc.narg('id')::uuid is null or id = sqlc.narg('id')) and (@name::text = '' or name = @name)
  and (@instance_name::text = '' or instance_name = @instance_name);
