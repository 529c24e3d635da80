package scheduler

import (
	"time"

	"github.com/google/uuid"
)

// Metrics counts the origins of one lister and visit type (a row of the table
// scheduler_metrics).
type Metrics struct {
	ListerID                  uuid.UUID
	VisitType                 string
	LastUpdate                time.Time
	OriginsKnown              int32
	OriginsEnabled            int32 // those in the latest listing
	OriginsNeverVisited       int32 // those enabled that have no snapshot
	OriginsWithPendingChanges int32 // those enabled that changed after their last successful visit
}
