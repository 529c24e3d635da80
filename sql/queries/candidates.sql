-- Candidates: a copy of the columns that visit policies select and order by. One process at a time writes
-- it.

-- LockCandidates takes the advisory lock of candidates.
-- name: LockCandidates :exec
select pg_advisory_xact_lock(hashtextextended('swh-scheduler candidates', 0));

-- TryLockCandidates takes the advisory lock of candidates if it is free, and reports whether it took it.
-- name: TryLockCandidates :one
select pg_try_advisory_xact_lock(hashtextextended('swh-scheduler candidates', 0));

-- CandidatesReady reports whether candidates can be used.
-- name: CandidatesReady :one
select phase = 'ready' from scheduler_go.candidate_build;

-- PendingChanges counts the changes of a visit type up to a bound.
-- name: PendingChanges :one
select scheduler_go.pending_changes(@visit_type, @bound) as pending;

-- CandidateBacklog counts all changes up to a bound.
-- name: CandidateBacklog :one
select least(coalesce(sum(scheduler_go.pending_changes(t, @bound::bigint)), 0), @bound)::bigint as pending from scheduler_go.changed_visit_types() t;

-- ChangedVisitTypes lists the visit types with changes.
-- name: ChangedVisitTypes :many
select t::text as visit_type from scheduler_go.changed_visit_types() t;

-- DrainCandidates removes some changes of a visit type, updates the candidates of their
-- origins, and returns the number of changes. The caller holds the lock of candidates.
-- name: DrainCandidates :one
select scheduler_go.drain_candidates(@visit_type, @max_changes);

-- UnparkCandidates adds due candidates to the indexes of the policies, and returns their
-- number. The caller holds the lock of candidates.
-- name: UnparkCandidates :one
select scheduler_go.unpark_candidates(@max_candidates);

-- CandidateGroups reads the stored counts of a visit type's candidates: without and with a known last
-- update.
-- name: CandidateGroups :many
select without_update, with_update from scheduler_go.candidate_groups where visit_type = @visit_type;

-- NextDue returns the due time of the next parked candidate of a visit type, from a moment on.
-- name: NextDue :many
select due from scheduler_go.candidates
where visit_type = @visit_type and parked and due >= @at
order by due
limit 1;

-- The build, in steps. The caller holds the lock of candidates.

-- BuildPhase returns the next phase of the build, and the estimated number of listed origins.
-- name: BuildPhase :one
select phase, rows, by_lister, by_fork, by_freshness, by_cooldown,
       (select greatest(reltuples, 0)::bigint from pg_catalog.pg_class where oid = 'listed_origins'::regclass)::bigint as origins
from scheduler_go.candidate_build;

-- StartBuild begins to copy rows. It deletes all visible changes: the copy reads the changed rows later.
-- name: StartBuild :exec
with forgotten as (
  delete from scheduler_go.candidate_changes
), uncounted as (
  delete from scheduler_go.candidate_groups
)
update scheduler_go.candidate_build
set phase = 'rows', rows = 0, after_lister = null, after_url = null, after_visit_type = null
where phase = 'empty';

-- CopyCandidates copies the next rows; it returns -1 if a table was truncated.
-- name: CopyCandidates :one
select coalesce(scheduler_go.copy_candidates(@max_candidates), -1)::bigint;

-- FinishBuild counts the candidates and enables them, unless a table was truncated during the build.
-- name: FinishBuild :execrows
with counted as (
  insert into scheduler_go.candidate_groups (visit_type, without_update, with_update)
  select visit_type, count(*) - count(last_update), count(last_update)
  from scheduler_go.candidates group by visit_type
)
update scheduler_go.candidate_build set phase = 'ready' where phase = 'indexes';

-- GiveUpCandidates disables candidates until the next build. The build distinguishes forks, and computes
-- moments, if this call or an earlier one asks for it.
-- name: GiveUpCandidates :exec
update scheduler_go.candidate_build
set phase = 'empty', by_fork = by_fork or @by_fork, by_freshness = by_freshness or @by_freshness
where phase <> 'empty' or by_fork < @by_fork or by_freshness < @by_freshness;

-- ChangePages counts the pages of the table of changes.
-- name: ChangePages :one
select (pg_relation_size('scheduler_go.candidate_changes') / current_setting('block_size')::bigint)::bigint;

-- DropChanges deletes the changes on a range of pages, and returns their number.
-- name: DropChanges :execrows
delete from scheduler_go.candidate_changes
where ctid >= format('(%s,0)', @first_page::bigint)::tid and ctid < format('(%s,0)', @end_page::bigint)::tid;

-- KeepIndexes records whether later builds create the indexes by lister and for shorter cooldowns.
-- name: KeepIndexes :exec
update scheduler_go.candidate_build set by_lister = @by_lister, by_cooldown = @by_cooldown
where by_lister <> @by_lister or by_cooldown <> @by_cooldown;
