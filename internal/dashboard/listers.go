package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/db"
)

var listersPage = Page{Path: "/listers", Title: "Listers", Menu: "Listers", Template: "listers.html", Query: []string{"q"}, Fragments: []string{"pools", "listers", "hints"}, Data: listersOf}

// listersData contains the listers whose names contain Word.
type listersData struct {
	Word    string       `json:"word"`
	Listers []listerData `json:"listers"` // at most maxRows
	Found   int          `json:"found"`
	Active  []activeData `json:"active"`
	Pools   []poolData   `json:"pools"`
	Changes int64        `json:"candidate_changes"`
	Built   float64      `json:"candidates_built"` // part of the candidates that is built, from 0 to 1
	Hints   []hintData   `json:"hints"`
}

type listerData struct {
	Lister      string       `json:"lister"`
	Instance    string       `json:"instance"`
	LastListing *time.Time   `json:"last_listing"`
	Updated     time.Time    `json:"updated"`
	Counts      []listedData `json:"counts"` // by update-metrics
}

// listedData are the counts of a lister's origins of a visit type.
type listedData struct {
	VisitType string    `json:"visit_type"`
	Counted   time.Time `json:"counted"`
	Known     int32     `json:"known"`
	Enabled   int32     `json:"enabled"`
	Never     int32     `json:"never_visited"`
	Changed   int32     `json:"with_pending_changes"`
}

// activeData counts the origins that changed between the last two listings of a lister's instances.
type activeData struct {
	Lister  string `json:"lister"`
	Origins int64  `json:"origins"`
}

// poolData contains the numbers of candidates of a visit type by pool.
type poolData struct {
	VisitType string `json:"visit_type"`
	db.PoolCounts
	Counted bool     `json:"counted"` // otherwise the numbers are unknown
	Drift   *float64 `json:"drift"`   // how many seconds its queue position is behind the clock; nil without a position, or if Unmoved
	Unmoved bool     `json:"unmoved"` // its position has never moved
}

func listersOf(ctx context.Context, r *Request) (any, error) {
	figures, err := r.now.figures.must(ctx)
	if err != nil {
		return nil, err
	}
	listers, err := r.Reads.Listers(ctx)
	if err != nil {
		return nil, err
	}
	metrics, err := r.Reads.Metrics(ctx, uuid.NullUUID{}, "")
	if err != nil {
		return nil, err
	}
	word := r.Word("q")
	l := listersData{Word: word, Listers: []listerData{}, Active: []activeData{}, Pools: poolsOf(figures, r.Now), Changes: figures.CandidateChanges, Built: figures.Build.Part(), Hints: hintsOf(figures.HintSources, r.Now)}
	counts := map[uuid.UUID][]listedData{}
	for _, m := range metrics {
		counts[m.ListerID] = append(counts[m.ListerID], listedData{
			m.VisitType, m.LastUpdate, m.OriginsKnown, m.OriginsEnabled, m.OriginsNeverVisited, m.OriginsWithPendingChanges,
		})
	}
	for _, one := range listers {
		if strings.Contains(one.Name, word) || strings.Contains(one.InstanceName, word) {
			l.Found++
			if len(l.Listers) < maxRows {
				l.Listers = append(l.Listers, listerData{one.Name, one.InstanceName, one.LastListingFinishedAt, one.Updated, counts[one.ID]})
			}
		}
	}
	for _, a := range figures.Active {
		if strings.Contains(a.Lister, word) {
			l.Active = append(l.Active, activeData{a.Lister, a.Origins})
		}
	}
	slices.SortFunc(l.Active, func(a, b activeData) int {
		return cmp.Or(cmp.Compare(b.Origins, a.Origins), strings.Compare(a.Lister, b.Lister))
	})
	l.Active = l.Active[:min(len(l.Active), maxRows)]
	return l, nil
}

// poolsOf returns the pools of each visit type, and the delay of its queue position.
func poolsOf(f db.Figures, now time.Time) []poolData {
	byType := map[string]*poolData{}
	of := func(visitType string) *poolData {
		if byType[visitType] == nil {
			byType[visitType] = &poolData{VisitType: visitType}
		}
		return byType[visitType]
	}
	for visitType, counts := range f.Pools {
		of(visitType).PoolCounts, of(visitType).Counted = counts, true
	}
	for _, p := range f.Positions {
		at, unmoved := positionOf(p)
		if of(p.VisitType).Unmoved = unmoved; at != nil {
			of(p.VisitType).Drift = new(now.Sub(*at).Seconds())
		}
	}
	pools := []poolData{}
	for _, p := range byType {
		pools = append(pools, *p)
	}
	slices.SortFunc(pools, func(a, b poolData) int { return strings.Compare(a.VisitType, b.VisitType) })
	return pools[:min(len(pools), maxRows)]
}
