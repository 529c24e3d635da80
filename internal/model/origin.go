package model

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Lister is an instance of a lister, a program that lists the origins of a forge.
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

// ListedOrigin is an origin as a lister last listed it. Its JSON is a row to write.
type ListedOrigin struct {
	ListerID             uuid.UUID       `json:"lister_id"`
	URL                  string          `json:"url"`
	VisitType            string          `json:"visit_type"`
	ExtraLoaderArguments json.RawMessage `json:"extra_loader_arguments"` // a JSON object
	Enabled              bool            `json:"enabled"`
	FirstSeen            time.Time       `json:"-"` // set by the database
	LastSeen             time.Time       `json:"last_seen,omitzero"`
	LastUpdate           *time.Time      `json:"last_update"`
	IsFork               *bool           `json:"is_fork"`
	ForkedFromURL        *string         `json:"forked_from_url"`
}

// VisitStatus is the outcome of an origin's last visit.
type VisitStatus string

// The outcomes of a visit (the enum last_visit_status).
const (
	VisitSuccessful VisitStatus = "successful"
	VisitFailed     VisitStatus = "failed"
	VisitNotFound   VisitStatus = "not_found"
)

// DefaultPositionOffset is the offset of an origin's first visit. By default it stands for two days.
const DefaultPositionOffset = 4

// VisitStats are the stats of an origin's visits (the table origin_visit_stats). NextVisitQueuePosition is in seconds
// of the visit type's own clock. NextPositionOffset is an index in the list of visit intervals. Their JSON is a row
// to write.
type VisitStats struct {
	URL                    string      `json:"url"`
	VisitType              string      `json:"visit_type"`
	LastSuccessful         *time.Time  `json:"last_successful"`
	LastVisit              *time.Time  `json:"last_visit"`
	LastVisitStatus        VisitStatus `json:"last_visit_status,omitempty"` // "" where NULL
	LastScheduled          *time.Time  `json:"last_scheduled"`
	LastSnapshot           []byte      `json:"last_snapshot"`
	NextVisitQueuePosition *int64      `json:"next_visit_queue_position"`
	NextPositionOffset     int32       `json:"next_position_offset"`
	SuccessiveVisits       int32       `json:"successive_visits"`
}

// OriginKey is the key of VisitStats.
type OriginKey struct {
	URL       string
	VisitType string
}

// Metrics has the counts of the origins of a lister and visit type (a row of the table scheduler_metrics).
type Metrics struct {
	ListerID                  uuid.UUID
	VisitType                 string
	LastUpdate                time.Time
	OriginsKnown              int32
	OriginsEnabled            int32 // those in the latest listing
	OriginsNeverVisited       int32 // enabled, without a snapshot
	OriginsWithPendingChanges int32 // enabled, changed after their last successful visit
}
