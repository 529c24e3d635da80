package rpc

import (
	"context"
	"errors"
	"net/http"

	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/model"
)

// hintOrigins isn't a call of the Python scheduler. Hints and their counts are plain dicts.
var hintOrigins = define("origins/hint", hinter|operator, "hint_origins",
	"Moves the last update of origins that are said to have changed, and returns how many hints had which result.",
	only("hints", listing(hintDicts)), document[model.HintAnswer](),
	func(c *call, all []model.Hint) (model.HintAnswer, error) {
		answer, err := c.hints.Hint(c, all)
		switch {
		case errors.Is(err, hints.ErrBusy):
			err = httpError(http.StatusServiceUnavailable, "ServiceUnavailable", err.Error())
		case errors.Is(err, hints.ErrTooMany):
			x := valueError("%s", err)
			x.status = http.StatusBadRequest
			err = x
		}
		return answer, err
	})

var hintDicts = dictOf(func(f *fields, h *model.Hint) {
	required(f, "url", text, &h.URL)
	optional(f, "visit_type", looseText, &h.VisitType)
	optional(f, "changed_at", looseMoment, &h.ChangedAt)
	required(f, "source", text, &h.Source)
})

// HintOrigins sends hints, in calls of model.MaxHints, and counts them by result.
func (c *Client) HintOrigins(ctx context.Context, all []model.Hint) (answer model.HintAnswer, err error) {
	for len(all) > 0 && err == nil {
		n := min(len(all), model.MaxHints)
		var part model.HintAnswer
		part, err = hintOrigins.ask(ctx, c, all[:n])
		answer.Sum(part)
		all = all[n:]
	}
	return answer, err
}
