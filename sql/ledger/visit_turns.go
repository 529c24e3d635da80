package ledger

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// VisitTurn is a visit whose outcome differs from the visit before.
type VisitTurn struct {
	model.OriginKey
	At         time.Time // date of the visit
	Status     model.VisitStatus
	Before     model.VisitStatus // of the visits before
	Visits     int32             // the number of visits in a row with the outcome Before
	LastBefore time.Time         // date of the last of them
}

// keptTurns bounds the stored turns.
const keptTurns = 10_000_000

// VisitStretch is visits in a row of an origin with the same outcome.
type VisitStretch struct {
	Status model.VisitStatus `json:"status"`
	Visits int32             `json:"visits"`
	First  *time.Time        `json:"first"` // date of the first one; nil: unknown
	Last   time.Time         `json:"last"`
}

// VisitStretches returns the last visits of an origin by visit type, at most limit types and stretches
// each, the newest first. Turns are stored for 400 days; the last stretch may be longer.
func (a Queries) VisitStretches(ctx context.Context, url string, limit int) (map[string][]VisitStretch, error) {
	rows, err := a.q.VisitsInARow(ctx, queries.VisitsInARowParams{URL: url, Most: int32(limit)})
	all := make(map[string][]VisitStretch, len(rows))
	for _, r := range rows {
		turns, err := a.q.VisitTurns(ctx, queries.VisitTurnsParams{VisitType: r.VisitType, URL: url, Most: int32(limit)})
		if err != nil {
			return nil, stmt.Failed(err, "read the visits of an origin")
		}
		stretches := []VisitStretch{{Status: model.VisitStatus(r.Status), Visits: r.SuccessiveVisits, Last: r.LastVisit}}
		for _, t := range turns {
			stretches[len(stretches)-1].First = &t.At
			stretches = append(stretches, VisitStretch{Status: model.VisitStatus(t.Before), Visits: t.Visits, Last: t.LastBefore})
		}
		all[r.VisitType] = stretches[:min(len(stretches), limit)]
	}
	return all, stmt.Failed(err, "read the visits of an origin")
}

// ForgetVisitTurns deletes turns older than 400 days, and the oldest beyond the bound.
func (s Store) ForgetVisitTurns(ctx context.Context) error {
	return stmt.Failed(s.q.ForgetVisitTurns(ctx, keptTurns), "forget old turns of visits")
}
