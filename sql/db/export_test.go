package db

import (
	"time"

	"swh-scheduler/sql/graphs"
)

// Searches and steps of actions look at fewer tasks in tests, and are taken again sooner.
func init() { graphs.SearchedTasks, actionTasks, actionRetry = 200, 50, 10*time.Millisecond }
