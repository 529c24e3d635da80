-- Visits: what the grab itself (visits.go, which puts its query together) needs.

-- LockVisitType makes grabs of one visit type wait for each other.
-- name: LockVisitType :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler visits ' || @visit_type::text, 0));
