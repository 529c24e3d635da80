-- Listed origins, as listers record them and other programs read them.

-- RecordListedOrigins adds or replaces origins. They come as one JSON list, as its fields, unlike array
-- elements, can be null. It writes rows in the order of their keys, so that two listers never deadlock.
-- name: RecordListedOrigins :many
insert into listed_origins (
  lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen,
  last_update, is_fork, forked_from_url)
select lister_id, url, visit_type, extra_loader_arguments, enabled, coalesce(last_seen, now()),
       last_update, is_fork, forked_from_url
from json_to_recordset(@origins::json) as new (
  lister_id uuid, url text, visit_type text, extra_loader_arguments jsonb, enabled boolean,
  last_seen timestamptz, last_update timestamptz, is_fork boolean, forked_from_url text)
order by lister_id, url, visit_type
on conflict (lister_id, url, visit_type) do update
set extra_loader_arguments = excluded.extra_loader_arguments,
    enabled = excluded.enabled,
    last_seen = excluded.last_seen,
    last_update = excluded.last_update,
    is_fork = excluded.is_fork,
    forked_from_url = excluded.forked_from_url
returning *;

-- ListedOrigins returns a page of origins; a null parameter is no condition. The page has all visit types
-- of its last URL, as the next page begins after that URL.
-- name: ListedOrigins :many
select * from listed_origins
where (sqlc.narg(lister_id)::uuid is null or lister_id = sqlc.narg(lister_id)::uuid)
  and (sqlc.narg(urls)::text[] is null or url = any(sqlc.narg(urls)::text[]))
  and (sqlc.narg(enabled)::boolean is null or enabled = sqlc.narg(enabled)::boolean)
  and (sqlc.narg(after_lister)::uuid is null
       or (lister_id, url) > (sqlc.narg(after_lister)::uuid, @after_url::text))
order by lister_id, url
fetch first (@max_origins::bigint) rows with ties;

-- EnabledVisitTypes lists the visit types with enabled origins. It reads all origins.
-- name: EnabledVisitTypes :many
select distinct visit_type from listed_origins where enabled order by visit_type;

-- OriginsForMetrics returns the columns that update_metrics counts by, for the origins with the URLs.
-- name: OriginsForMetrics :many
select lo.url, lo.visit_type, lo.lister_id, lo.enabled, lo.last_update,
       ovs.last_successful, (ovs.last_snapshot is not null)::boolean as loaded
from listed_origins lo
left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
where lo.url = any(@urls::text[]);
