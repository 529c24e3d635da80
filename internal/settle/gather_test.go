package settle

import (
	"slices"
	"testing"

	"swh-scheduler/internal/model"
)

// A run counts as timed out even if another report of the same end comes first. A run that ended well has not timed
// out, whatever a later event says.
func TestTimedOutOutlivesTheFirstEnd(t *testing.T) {
	t.Parallel()
	plain := Outcome{BackendID: "run", End: &End{Status: model.RunFailed, Error: new("lost")}}
	limit := Outcome{BackendID: "run", End: &End{Status: model.RunFailed, Error: new("limit"), TimedOut: true}}
	well := Outcome{BackendID: "run", End: &End{Status: model.RunEventful}}
	for name, c := range map[string]struct {
		outcomes []Outcome
		error    string
		timedOut bool
	}{
		"limit":              {[]Outcome{limit}, "limit", true},
		"limit twice":        {[]Outcome{limit, limit}, "limit", true},
		"limit, then plain":  {[]Outcome{limit, plain}, "limit", true},
		"plain, then limit":  {[]Outcome{plain, limit, plain}, "lost", true},
		"plain twice":        {[]Outcome{plain, plain}, "lost", false},
		"well, then limit":   {[]Outcome{well, limit}, "", false},
		"limit, then a good": {[]Outcome{limit, well}, "limit", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := slices.Clone(c.outcomes)
			end := gather(given)["run"].end.End
			var text string
			if end.Error != nil {
				text = *end.Error
			}
			if end.TimedOut != c.timedOut || text != c.error || end.Status != c.outcomes[0].End.Status {
				t.Errorf("%s, timed out %v, error %q", end.Status, end.TimedOut, text)
			}
			if plain.End.TimedOut || well.End.TimedOut {
				t.Error("the caller's outcomes have changed, which it may apply again")
			}
		})
	}
}
