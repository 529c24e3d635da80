-- Maintenance jobs, each done by one process at a time.

-- AddKeeperJob creates the row of a job.
-- name: AddKeeperJob :exec
insert into scheduler_go.keeper (job) values (@job) on conflict do nothing;

-- TakeKeeperJob leases a due job, unless another process has it. A job that failed is due
-- sooner.
-- name: TakeKeeperJob :one
update scheduler_go.keeper
set began = clock_timestamp(), until = clock_timestamp() + make_interval(secs => @lease::double precision)
where job = @job and until <= clock_timestamp()
  and began + make_interval(secs => case when failed then @after_failure::double precision else @period::double precision end) <= clock_timestamp()
returning began;

-- EndKeeperJob records the result of the run that began at a moment, unless another process
-- has taken the job over.
-- name: EndKeeperJob :exec
update scheduler_go.keeper
set until = 'epoch', seconds = extract(epoch from clock_timestamp() - began), result = @result, failed = @failed
where job = @job and began = @began;

-- KeeperJobs lists the jobs, and how the last run of each went.
-- name: KeeperJobs :many
select job, began, seconds, result, failed from scheduler_go.keeper order by job;
