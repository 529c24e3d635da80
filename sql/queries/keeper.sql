-- Maintenance jobs. One process at a time runs a job.

-- DueKeeperJobs returns the given jobs that are due and not leased, and those whose last run failed, with
-- the error. A failed job is due sooner. A job that began in the future is due: the database's clock was set back.
-- name: DueKeeperJobs :many
select d.job, d.due, d.failure
from (
  select j.job::text as job,
         coalesce(k.began > clock_timestamp() + interval '1 minute' or k.until <= clock_timestamp()
           and k.began + make_interval(secs => case when k.failed then least(j.period, @after_failure::double precision) else j.period end) <= clock_timestamp(),
           true)::boolean as due,
         case when k.failed then k.result else '' end::text as failure
  from (select unnest(@jobs::text[]) as job, unnest(@periods::double precision[]) as period) j
  left join scheduler_go.keeper k on k.job = j.job
) d
where d.due or d.failure <> '';

-- TakeKeeperJob leases a job, unless another process leases it or began it in the last period. It takes a job that began in
-- the future.
-- name: TakeKeeperJob :one
insert into scheduler_go.keeper as k (job, began, until)
values (@job, clock_timestamp(), clock_timestamp() + make_interval(secs => @lease::double precision))
on conflict (job) do update set began = excluded.began, until = excluded.until
where k.began > clock_timestamp() + interval '1 minute' or k.until <= clock_timestamp()
  and k.began + make_interval(secs => case when k.failed then least(@period::double precision, @after_failure::double precision) else @period::double precision end) <= clock_timestamp()
returning began;

-- EndKeeperJob records the result of the run that began at a moment, unless another process has taken the
-- job over.
-- name: EndKeeperJob :exec
update scheduler_go.keeper
set until = 'epoch', seconds = extract(epoch from clock_timestamp() - began), result = @result, failed = @failed
where job = @job and began = @began;

-- KeeperJobs lists the jobs with the result of each last run.
-- name: KeeperJobs :many
select job, began, seconds, result, failed from scheduler_go.keeper order by job;

-- MayMaintainOrigins reports whether the user has the rights for jobs that read origins or write estimates
-- of them.
-- name: MayMaintainOrigins :one
select (has_table_privilege('listed_origins', 'select') and has_table_privilege('scheduler_go.candidate_changes', 'delete'))::boolean as may;
