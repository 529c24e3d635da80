-- Walks over whole tables, in steps, taken by package bulk.

-- WalkState returns the place of a walk, or -1 if none is underway, and whether the last one began at least
-- @every seconds ago, or in the future: the database's clock was set back.
-- name: WalkState :one
select coalesce(place, -1)::bigint as place, so_far,
  (began + make_interval(secs => @every::double precision) <= clock_timestamp() or began > clock_timestamp() + interval '1 minute')::boolean as due
from scheduler_go.walks where name = @name;

-- BeginWalk begins a walk at a place, if none is underway.
-- name: BeginWalk :exec
insert into scheduler_go.walks as w (name, began, place, so_far) values (@name, clock_timestamp(), @place::bigint, @so_far)
on conflict (name) do update set began = excluded.began, place = excluded.place, so_far = excluded.so_far where w.place is null;

-- CancelWalk ends a walk without a result. The next one is due at once.
-- name: CancelWalk :exec
update scheduler_go.walks set place = null, so_far = '{}', began = '-infinity' where name = @name;

-- StepWalk records the next place of a walk, unless another process has done so.
-- name: StepWalk :execrows
update scheduler_go.walks set place = @next::bigint, so_far = @so_far where name = @name and place = @place::bigint;

-- EndWalk ends a walk and stores its result.
-- name: EndWalk :execrows
update scheduler_go.walks set place = null, so_far = '{}', result = @result, finished = clock_timestamp()
where name = @name and place = @place::bigint;

-- WalkResult returns the result of the last complete walk, and the seconds since its end.
-- name: WalkResult :one
select result, extract(epoch from clock_timestamp() - finished)::double precision as age
from scheduler_go.walks where name = @name and finished is not null;

-- CandidatePages counts the pages of candidates; -1 while they are not built.
-- name: CandidatePages :one
select case when exists (select from scheduler_go.candidate_build where phase = 'ready')
  then pg_relation_size('scheduler_go.candidates') / current_setting('block_size')::bigint
  else -1
end::bigint as pages;

-- ListedOriginPages counts the pages of listed_origins; -1 while candidates are not built.
-- name: ListedOriginPages :one
select case when exists (select from scheduler_go.candidate_build where phase = 'ready')
  then pg_relation_size('listed_origins') / current_setting('block_size')::bigint
  else -1
end::bigint as pages;

-- CheckCandidates queues changes for candidates on a range of pages that differ from their origins.
-- name: CheckCandidates :one
select scheduler_go.check_candidates(@first_page, @end_page)::bigint as noted;

-- CheckListedOrigins queues changes for origins on a range of pages of listed_origins that lack a
-- candidate.
-- name: CheckListedOrigins :one
select scheduler_go.check_listed_origins(@first_page, @end_page)::bigint as noted;

-- CountPools counts the origins by pool on a range of pages of candidates.
-- name: CountPools :many
select visit_type,
       count(*) filter (where last_update is null) as without_update,
       count(*) filter (where last_update is not null and not loaded) as never_loaded,
       count(lag) as lagging,
       count(*) filter (where last_update is not null and loaded and lag is null) as others
from scheduler_go.candidates
where ctid >= format('(%s,0)', @first_page::bigint)::tid and ctid < format('(%s,0)', @end_page::bigint)::tid
group by visit_type;

-- UncountedListings lists the ended listings whose changed origins are not counted yet. It returns none
-- while candidates lack many changes.
-- name: UncountedListings :many
select lister_id, previous::timestamptz as previous, finished from scheduler_go.listings
where isfinite(previous) and isfinite(finished) and counted is distinct from finished
  and not exists (
    select from scheduler_go.changed_visit_types() t, (select @most_changes::bigint as most) m
    where scheduler_go.pending_changes(t, m.most + 1) > m.most);

-- CountActive counts the origins on a range of pages of candidates that changed between two listings of
-- their lister.
-- name: CountActive :many
select l.lister_id::uuid as lister_id, count(*) as origins
from (select unnest(@lister_id::uuid[]) as lister_id, unnest(@previous::timestamptz[]) as previous, unnest(@finished::timestamptz[]) as finished) l
join scheduler_go.candidates c on c.lister_id = l.lister_id and c.last_update between l.previous and l.finished
where c.ctid >= format('(%s,0)', @first_page::bigint)::tid and c.ctid < format('(%s,0)', @end_page::bigint)::tid
group by l.lister_id;

-- SetActive records the counts of listings, unless a later listing has ended.
-- name: SetActive :exec
update scheduler_go.listings l set active = counts.origins, counted = l.finished
from (select unnest(@listers::uuid[]) as lister_id, unnest(@finished::timestamptz[]) as finished, unnest(@origins::bigint[]) as origins) counts
where l.lister_id = counts.lister_id and l.finished = counts.finished;

-- ForgetListings deletes the listings of deleted listers.
-- name: ForgetListings :exec
delete from scheduler_go.listings l where not exists (select from listers s where s.id = l.lister_id);

-- EndOfRuns returns the number after the last run.
-- name: EndOfRuns :one
select (coalesce(max(id), -1) + 1)::bigint as id from task_run;

-- CountRuns counts the runs in a range of numbers that were scheduled or started before a moment and have
-- not ended. keep is the first run that has not ended, or is younger than the moment.
-- name: CountRuns :one
select count(*) filter (where status in ('scheduled', 'started') and coalesce(started, scheduled) < @before::timestamptz) as unanswered,
       coalesce(min(id) filter (where status in ('scheduled', 'started') or coalesce(scheduled >= @before, true)), @end_id::bigint)::bigint as keep
from task_run
where id >= @first_id::bigint and id < @end_id::bigint;
