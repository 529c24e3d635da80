// Package maintenance has the jobs that are done now and then, a file each, and runs them: each in one process at a time,
// with a timeout; the last run and its result are in the table scheduler_go.keeper.
//
// Every daemon but the dashboard has a Keeper with the jobs that it can do; the first that finds a job due
// does it. A process that dies blocks a job for at most twice the job's timeout. Jobs
// must be idempotent.
package maintenance
