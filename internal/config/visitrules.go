package config

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// readVisitRules replaces the rules that the file has.
func (c *Config) readVisitRules(v value) {
	r := &c.VisitRules
	v.section(fieldsOf(r, map[string]func(value){
		"intervals": func(v value) { r.Intervals = intervals(v) },
		"fudge": func(v value) {
			if r.Fudge = v.number(); r.Fudge >= 1 {
				v.problem("must be below 1: an interval would not move an origin forward")
			}
		},
	}), nil)
	if r.DisableAfterMixed > 0 && r.DisableAfterMixed < r.DisableAfter {
		v.problem("must not have a disable_after_mixed below disable_after, which would then have no effect")
	}
}

// maxInterval bounds an interval.
const maxInterval = 100 * 365 * 24 * time.Hour

// intervals reads a list of intervals that grow.
func intervals(v value) (list []time.Duration) {
	if v.node.Kind != yaml.SequenceNode || len(v.node.Content) == 0 {
		v.fail("a list of intervals, such as [1 day, 2 days, 4 days]", "a list")
		return nil
	}
	for i := range v.node.Content {
		item := v.item(i)
		before := len(v.errors)
		d := item.cooldown()
		switch {
		case len(v.errors) > before:
		case d < time.Minute || d > maxInterval:
			item.problem("must be an interval from a minute to 100 years")
		case i > 0 && d < list[i-1]:
			item.problem("must not be shorter than the one before it: an origin without news would be visited sooner")
		}
		list = append(list, d)
	}
	return list
}
