package sql

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// UpsertVisitStats writes stats as given; what is nil or empty stays as it is. Of
// an origin that comes twice, each is written over the one before.
func (a asker) UpsertVisitStats(ctx context.Context, stats []scheduler.VisitStats) error {
	if len(stats) == 0 {
		return nil
	}
	order := make(map[scheduler.OriginKey]int, len(stats))
	unique := make([]scheduler.VisitStats, 0, len(stats))
	for _, s := range stats {
		key := scheduler.OriginKey{URL: s.URL, VisitType: s.VisitType}
		if at, found := order[key]; found {
			unique[at] = overwrite(unique[at], s)
			continue
		}
		order[key] = len(unique)
		unique = append(unique, s)
	}
	document, err := encodeVisitStats(unique)
	if err == nil {
		err = a.q.UpsertOriginStats(ctx, document)
	}
	if err != nil {
		return fmt.Errorf("write the visit stats of %d origins: %w", len(unique), err)
	}
	return nil
}

// overwrite is what the statement does to a row.
func overwrite(old, s scheduler.VisitStats) scheduler.VisitStats {
	if s.LastSuccessful == nil {
		s.LastSuccessful = old.LastSuccessful
	}
	if s.LastVisit == nil {
		s.LastVisit = old.LastVisit
	}
	if s.LastVisitStatus == "" {
		s.LastVisitStatus = old.LastVisitStatus
	}
	if s.LastScheduled == nil {
		s.LastScheduled = old.LastScheduled
	}
	if s.LastSnapshot == nil {
		s.LastSnapshot = old.LastSnapshot
	}
	if s.NextVisitQueuePosition == nil {
		s.NextVisitQueuePosition = old.NextVisitQueuePosition
	}
	return s
}

// encodeVisitStats writes stats as the JSON list that the query reads.
func encodeVisitStats(stats []scheduler.VisitStats) (json.RawMessage, error) {
	type row struct {
		URL                    string                 `json:"url"`
		VisitType              string                 `json:"visit_type"`
		LastSuccessful         *time.Time             `json:"last_successful"`
		LastVisit              *time.Time             `json:"last_visit"`
		LastVisitStatus        *scheduler.VisitStatus `json:"last_visit_status"`
		LastScheduled          *time.Time             `json:"last_scheduled"`
		LastSnapshot           *string                `json:"last_snapshot"` // hexadecimal
		NextVisitQueuePosition *int64                 `json:"next_visit_queue_position"`
		NextPositionOffset     int32                  `json:"next_position_offset"`
		SuccessiveVisits       int32                  `json:"successive_visits"`
	}
	rows := make([]row, len(stats))
	for i, s := range stats {
		rows[i] = row{
			URL: s.URL, VisitType: s.VisitType,
			LastSuccessful: inMicroseconds(s.LastSuccessful), LastVisit: inMicroseconds(s.LastVisit),
			LastVisitStatus: nullable(s.LastVisitStatus), LastScheduled: inMicroseconds(s.LastScheduled),
			NextVisitQueuePosition: s.NextVisitQueuePosition,
			NextPositionOffset:     s.NextPositionOffset, SuccessiveVisits: s.SuccessiveVisits,
		}
		if s.LastSnapshot != nil {
			text := hex.EncodeToString(s.LastSnapshot)
			rows[i].LastSnapshot = &text
		}
	}
	return encodeRows(rows)
}

// VisitStats are the stats of those of the origins that have some, in the order
// of the call.
func (a asker) VisitStats(ctx context.Context, keys []scheduler.OriginKey) ([]scheduler.VisitStats, error) {
	var params queries.OriginStatsParams
	for _, key := range keys {
		params.Urls = append(params.Urls, key.URL)
		params.VisitTypes = append(params.VisitTypes, key.VisitType)
	}
	rows, err := a.q.OriginStats(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("read visit stats: %w", err)
	}
	stats := make([]scheduler.VisitStats, len(rows))
	for i, row := range rows {
		stats[i] = scheduler.VisitStats{
			URL: row.URL, VisitType: row.VisitType, LastSuccessful: row.LastSuccessful, LastVisit: row.LastVisit,
			LastScheduled: row.LastScheduled, LastSnapshot: row.LastSnapshot,
			NextVisitQueuePosition: row.NextVisitQueuePosition,
			NextPositionOffset:     row.NextPositionOffset, SuccessiveVisits: row.SuccessiveVisits,
		}
		if row.LastVisitStatus != nil {
			stats[i].LastVisitStatus = *row.LastVisitStatus
		}
	}
	return stats, nil
}

// VisitQueuePosition is how far the queue of a visit type has been worked
// through.
type VisitQueuePosition struct {
	VisitType string
	Position  int64
}

// VisitQueuePositions are those of all visit types that have one.
func (a asker) VisitQueuePositions(ctx context.Context) ([]VisitQueuePosition, error) {
	rows, err := a.q.VisitQueuePositions(ctx)
	if err != nil {
		return nil, fmt.Errorf("read queue positions: %w", err)
	}
	positions := make([]VisitQueuePosition, len(rows))
	for i, row := range rows {
		positions[i] = VisitQueuePosition(row)
	}
	return positions, nil
}

// SetVisitQueuePosition says how far the queue of a visit type has been worked
// through; it may go back.
func (a asker) SetVisitQueuePosition(ctx context.Context, p VisitQueuePosition) error {
	err := a.q.SetVisitQueuePosition(ctx, queries.SetVisitQueuePositionParams(p))
	if err != nil {
		return fmt.Errorf("set the queue position of %q: %w", p.VisitType, err)
	}
	return nil
}
