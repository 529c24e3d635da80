package main

import "swh-scheduler/internal/status"

// What `shares status` and `lanes status` print with --output json.
type (
	shareStatus = status.Group
	laneStatus  = status.Lane
)
