package db

import (
	"time"

	"swh-scheduler/sql/graphs"
)

// In tests, searches and steps of actions read fewer tasks, and a failed step is repeated sooner.
func init() { graphs.SearchedTasks, actionTasks, actionRetry = 200, 50, 10*time.Millisecond }
