package main

import "swh-scheduler/internal/status"

// These types are the JSON output of `shares status` and `lanes status`.
type (
	shareStatus = status.Group
	laneStatus  = status.Lane
)
