package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"swh-scheduler/sql/origins"
)

// hintData are the counts of a source of hints, since its first one.
type hintData struct {
	Source    string    `json:"source"`
	Hints     int64     `json:"hints"`
	Moved     int64     `json:"moved"`
	Known     int64     `json:"known"` // of listed, enabled origins that had that date, a later one, or wait for a visit
	Unknown   int64     `json:"unknown"`
	Created   int64     `json:"created"`
	Disabled  int64     `json:"disabled"`
	Refused   int64     `json:"refused"`
	Visits    int64     `json:"visits"`
	Found     int64     `json:"found"`
	FoundPart *float64  `json:"found_part"` // of the visits; nil without any
	First     time.Time `json:"first_hint"`
	Last      time.Time `json:"last_hint"`
	Silent    bool      `json:"silent"`
}

// hintsOf returns the sources of hints, those with the most hints first, at most maxRows.
func hintsOf(sources []origins.HintSource, now time.Time) []hintData {
	all := []hintData{}
	for _, s := range sources {
		h := hintData{
			Source: s.Source, Hints: hintCount(s), Moved: s.Moved, Known: s.Newer + s.Repeated, Unknown: s.Unknown, Created: s.Created, Disabled: s.Disabled, Refused: s.Refused,
			Visits: s.Visits, Found: s.Found, First: s.FirstHint, Last: s.LastHint, Silent: hintSourceSilent(s, now),
		}
		if s.Visits > 0 {
			h.FoundPart = new(float64(s.Found) / float64(s.Visits))
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b hintData) int {
		return cmp.Or(cmp.Compare(b.Hints, a.Hints), strings.Compare(a.Source, b.Source))
	})
	return all[:min(len(all), maxRows)]
}

func hintCount(s origins.HintSource) int64 {
	return s.Moved + s.Newer + s.Repeated + s.Unknown + s.Created + s.Disabled + s.Refused
}

// hintSourceSilent reports whether a source has sent no hints for a day, and before more than 1,000 in a mean week.
// After a week its silence is no problem.
func hintSourceSilent(s origins.HintSource, now time.Time) bool {
	const day = 24 * time.Hour
	silent, weeks := now.Sub(s.LastHint), max(s.LastHint.Sub(s.FirstHint).Hours()/(7*24), 1)
	return silent > day && silent < 8*day && float64(hintCount(s))/weeks > 1000
}
