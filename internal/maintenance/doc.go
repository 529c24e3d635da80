// Package maintenance has the periodic jobs, a file each, and runs them. One process at a time runs a job, with a
// timeout. The table scheduler_go.keeper has the last run of each job and its result.
//
// Every daemon but the dashboard has a Keeper with the jobs that it can do. The first that finds a job due runs it. A
// process that dies blocks a job for at most twice the job's timeout. Jobs must be idempotent.
package maintenance
