package explain

import (
	"context"

	"swh-scheduler/sql/origins"
)

// hintFacts reads the last hint of an origin.
func (x *Gatherer) hintFacts(ctx context.Context, o *Origin) error {
	hints, err := x.Store.LastHints(ctx, o.URL, o.VisitType)
	if len(hints) > 0 {
		o.Hint = &hints[0]
	}
	return err
}

// describeHint adds the last hint of the origin, and what the visit after it found.
func (o Origin) describeHint(e *Explanation) {
	if o.Hint == nil {
		return
	}
	e.because("%s", hintText(e, *o.Hint))
}

func hintText(e *Explanation, h origins.LastHint) string {
	text := "The source of hints " + h.Source + " reported at " + e.at(h.ReceivedAt) + " that it changed at " + e.at(h.ChangedAt)
	if !h.Moved {
		text += ", when its last update was that date or later"
	}
	switch {
	case h.Visited == nil:
		return text + "; no visit has succeeded since, as far as is counted."
	case h.Found != nil && *h.Found:
		return text + "; the visit at " + e.at(*h.Visited) + " found another snapshot."
	}
	return text + "; the visit at " + e.at(*h.Visited) + " found the same snapshot."
}
