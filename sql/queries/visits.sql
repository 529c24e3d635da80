-- Visits: statements for the grab, whose own query sql/origins/grab.go puts together.

-- LockVisitType makes grabs of one visit type wait for each other.
-- name: LockVisitType :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler visits ' || @visit_type::text, 0));

-- FilteredListers lists the listers of an id, a name and an instance name; "" is any.
-- name: FilteredListers :many
select id from listers
where (sqlc.narg('id')::uuid is null or id = sqlc.narg('id')) and (@name::text = '' or name = @name)
  and (@instance_name::text = '' or instance_name = @instance_name);
