package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

// Hoster is the state of a hoster. A limit of 0 is none.
type Hoster struct {
	Hoster      string `json:"hoster"`
	InFlight    int    `json:"in_flight"`
	MaxInFlight int    `json:"max_in_flight"`
	LastMinute  int    `json:"last_minute"`
	PerMinute   int    `json:"per_minute"`

	Refuses *Refuses `json:"refuses,omitempty"` // nil: it has no limit by refusals
}

// Refuses is the limit of a hoster that refused visits. Times are in UTC.
type Refuses struct {
	MaxInFlight int           `json:"max_in_flight"` // 0: it gets no visits before Closed
	Closed      time.Time     `json:"closed"`
	Until       time.Time     `json:"until"` // when the limit begins to rise
	Last        time.Time     `json:"last"`  // the last refusal
	Kind        refusals.Kind `json:"kind"`
	Reason      string        `json:"reason"`
	// FailingSince is the first refusal after the last visit that succeeded; nil if one succeeded since.
	FailingSince *time.Time `json:"failing_since"`
	Waits        int        `json:"waits"` // number of waits in a row that ended in another refusal
}

// Most returns the lower one of two limits, of which 0 is none.
func Most(configured int, r *Refuses) int {
	if r == nil || configured > 0 && configured < r.MaxInFlight {
		return configured
	}
	return r.MaxInFlight
}

// Hosters returns the hosters with configured limits, those with a default limit and visits, and those that refuse
// visits.
func Hosters(ctx context.Context, store *db.Store, hosters model.Hosters, now time.Time) ([]Hoster, error) {
	refusing := map[string]refusals.State{}
	if hosters.Backoff != nil {
		var err error
		if refusing, err = store.RefusingHosters(ctx, now); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(refusing, func(hoster string, _ refusals.State) bool { return !hosters.BacksOff(hoster) })
	loads, err := store.HosterLoads(ctx, hosters, hosters.Loaded(slices.Collect(maps.Keys(refusing))...), now)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(loads, func(hoster string, _ origins.HosterLoad) bool { // others only count in case they refuse
		return !hosters.Limit(hoster).Limited() && refusing[hoster].Hoster == ""
	})
	limited := maps.Clone(hosters.Limits)
	maps.DeleteFunc(limited, func(_ string, l model.HosterLimit) bool { return !l.Limited() })
	names := slices.Concat(slices.Collect(maps.Keys(limited)), slices.Collect(maps.Keys(loads)), slices.Collect(maps.Keys(refusing)))
	slices.Sort(names)
	names = slices.Compact(names)
	rows := make([]Hoster, len(names))
	for i, hoster := range names {
		limit, load := hosters.Limit(hoster), loads[hoster]
		rows[i] = Hoster{hoster, load.InFlight, limit.MaxInFlight, load.LastMinute, limit.PerMinute, nil}
		if s, ok := refusing[hoster]; ok {
			n, _ := s.Max(now)
			rows[i].Refuses = &Refuses{n, s.Closed.UTC(), s.Until.UTC(), s.Refused.UTC(), s.Kind, s.Reason, nil, s.Waits}
			if !s.Since.IsZero() {
				rows[i].Refuses.FailingSince = new(s.Since.UTC())
			}
		}
	}
	return rows, nil
}

// HosterTable formats rows for a terminal. Limits by refusals have a line of their own, with the reason.
func HosterTable(t pytext.Terminal, rows []Hoster) string {
	lines := []string{"HOSTER\tIN FLIGHT>\tMAX>\tLAST MINUTE>\tMAX>"}
	var refusing []string
	for _, r := range rows {
		max := limit(Most(r.MaxInFlight, r.Refuses), "-")
		if r.Refuses != nil && r.Refuses.MaxInFlight == 0 {
			max = "0"
		}
		lines = append(lines, fmt.Sprintf("%s\t%d\t%s\t%d\t%s", pytext.Visible(r.Hoster), r.InFlight, max, r.LastMinute, limit(r.PerMinute, "-")))
		if r.Refuses != nil {
			refusing = append(refusing, fmt.Sprintf("%s refuses visits (%s): %s. %s", pytext.Visible(r.Hoster), r.Refuses.Kind, r.Refuses.describe(), pytext.Visible(r.Refuses.Reason)))
		}
	}
	text := t.Columns(lines)
	if len(refusing) > 0 {
		text += "\n" + strings.Join(refusing, "\n") + "\n"
	}
	return text
}

// describe returns the limit in words.
func (r Refuses) describe() string {
	if r.MaxInFlight == 0 {
		return "it gets none until " + r.Closed.Format(time.RFC3339)
	}
	return fmt.Sprintf("at most %d in flight, more from %s on", r.MaxInFlight, r.Until.Format(time.RFC3339))
}
