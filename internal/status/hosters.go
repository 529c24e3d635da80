package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
)

// Hoster is the state of a hoster. A limit of 0 is none.
type Hoster struct {
	Hoster      string `json:"hoster"`
	InFlight    int    `json:"in_flight"`
	MaxInFlight int    `json:"max_in_flight"`
	LastMinute  int    `json:"last_minute"`
	PerMinute   int    `json:"per_minute"`
}

// Hosters returns the hosters with configured limits and those with visits.
func Hosters(ctx context.Context, store *db.Store, hosters model.Hosters, now time.Time) ([]Hoster, error) {
	loads, err := store.HosterLoads(ctx, hosters, now)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(slices.Collect(maps.Keys(hosters.Limits)), slices.Collect(maps.Keys(loads)))
	slices.Sort(names)
	names = slices.Compact(names)
	rows := make([]Hoster, len(names))
	for i, hoster := range names {
		limit, load := hosters.Limit(hoster), loads[hoster]
		rows[i] = Hoster{hoster, load.InFlight, limit.MaxInFlight, load.LastMinute, limit.PerMinute}
	}
	return rows, nil
}

// HosterTable formats rows for a terminal.
func HosterTable(t pytext.Terminal, rows []Hoster) string {
	lines := []string{"HOSTER\tIN FLIGHT>\tMAX>\tLAST MINUTE>\tMAX>"}
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("%s\t%d\t%s\t%d\t%s", pytext.Visible(r.Hoster), r.InFlight, limit(r.MaxInFlight, "-"), r.LastMinute, limit(r.PerMinute, "-")))
	}
	return t.Columns(lines)
}
