package model

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Lister is one instance of a lister, the program that finds origins.
type Lister struct {
	ID                     uuid.UUID
	Name                   string
	InstanceName           string
	Created                time.Time
	CurrentState           json.RawMessage
	Updated                time.Time
	LastListingFinishedAt  *time.Time
	FirstVisitsQueuePrefix *string
	FirstVisitsScheduledAt *time.Time
}

// ListedOrigin is an origin as one lister saw it.
type ListedOrigin struct {
	ListerID             uuid.UUID
	URL                  string
	VisitType            string
	ExtraLoaderArguments json.RawMessage // a JSON object
	Enabled              bool
	FirstSeen            time.Time
	LastSeen             time.Time
	LastUpdate           *time.Time
	IsFork               *bool
	ForkedFromURL        *string
}

// VisitStatus is how the last visit of an origin ended.
type VisitStatus string

// The outcomes of a visit (the enum last_visit_status).
const (
	VisitSuccessful VisitStatus = "successful"
	VisitFailed     VisitStatus = "failed"
	VisitNotFound   VisitStatus = "not_found"
)

// DefaultPositionOffset is the offset of an origin's first visit. By default it stands for two days.
const DefaultPositionOffset = 4

// VisitStats are the stats of an origin's visits (the table origin_visit_stats).
// NextVisitQueuePosition is in seconds of the visit type's own clock;
// NextPositionOffset is an index in the list of visit intervals.
type VisitStats struct {
	URL                    string
	VisitType              string
	LastSuccessful         *time.Time
	LastVisit              *time.Time
	LastVisitStatus        VisitStatus // "" where NULL
	LastScheduled          *time.Time
	LastSnapshot           []byte
	NextVisitQueuePosition *int64
	NextPositionOffset     int32
	SuccessiveVisits       int32
}

// OriginKey is the key of VisitStats.
type OriginKey struct {
	URL       string
	VisitType string
}

// Metrics counts the origins of one lister and visit type (a row of the table
// scheduler_metrics).
type Metrics struct {
	ListerID                  uuid.UUID
	VisitType                 string
	LastUpdate                time.Time
	OriginsKnown              int32
	OriginsEnabled            int32 // those in the latest listing
	OriginsNeverVisited       int32 // enabled, without a snapshot
	OriginsWithPendingChanges int32 // enabled, changed after their last successful visit
}
