package ledger

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// VisitTurn is a visit that ended otherwise than the one before it.
type VisitTurn struct {
	model.OriginKey
	At         time.Time // date of the visit
	Status     model.VisitStatus
	Before     model.VisitStatus // of the visits before
	Visits     int32             // how many in a row had ended so
	LastBefore time.Time         // date of the last of them
}

// keptTurns bounds the turns that are kept.
const keptTurns = 10_000_000

// VisitStretch is visits in a row of an origin that ended alike.
type VisitStretch struct {
	Status model.VisitStatus `json:"status"`
	Visits int32             `json:"visits"`
	First  *time.Time        `json:"first"` // date of the first one; nil: it is not known
	Last   time.Time         `json:"last"`
}

// VisitStretches returns by visit type the last visits of an origin, of at most so many types and stretches, the newest first. More than 400 days are
// not known, but for the last stretch.
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

// ForgetVisitTurns deletes turns of more than 400 days ago, and the oldest of too many.
func (s Store) ForgetVisitTurns(ctx context.Context) error {
	return stmt.Failed(s.q.ForgetVisitTurns(ctx, keptTurns), "forget old turns of visits")
}
