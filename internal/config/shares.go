package config

import (
	"maps"
	"math"
	"regexp"
	"time"

	"swh-scheduler/internal/model"
)

// shareKwarg matches the part after "kwargs.": a Python name that fits into the name of an index.
var shareKwarg = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,29}$`)

func shareOf(v value) model.Shares {
	before := len(v.errors)
	s := model.Shares{HalfLife: model.DefaultShareHalfLife}
	v.section(map[string]func(value){
		"by":      func(v value) { s.By = shareKey(v) },
		"weights": func(v value) { s.Weights = mapping(v, "a mapping from groups to weights", value.weight) },
		"default": func(v value) { s.Default = v.weight() },
		"max_in_flight": func(v value) {
			s.MaxInFlight = mapping(v, "a mapping from groups to how many messages they may have in flight", func(v value) int { return v.whole(1) })
		},
		"priority": func(v value) {
			s.Priorities = mapping(v, "a mapping from groups to the priorities of their messages", value.messagePriority)
		},
		"half_life": func(v value) {
			if s.HalfLife = v.cooldown(); s.HalfLife < time.Second {
				v.problem("must be at least a second")
			}
		},
	}, nil)
	if s.By == "" && len(v.errors) == before {
		v.problem("needs by: lister, lister_instance, task_type or kwargs.<key>")
	}
	if s.Default == 0 {
		s.Default = mean(s.Weights)
	}
	return s
}

// mean is the default weight of groups if the file has none.
func mean(weights map[string]float64) float64 {
	if len(weights) == 0 {
		return 1
	}
	sum := 0.0
	for w := range maps.Values(weights) {
		sum += w
	}
	return sum / float64(len(weights))
}

func shareKey(v value) model.ShareKey {
	text, _ := v.scalar().(string)
	key := model.ShareKey(text)
	if kwarg, ok := key.Kwarg(); ok {
		if !shareKwarg.MatchString(kwarg) {
			v.problem("must name one keyword argument after kwargs. (at most 30 letters, digits and _)")
		}
		return key
	}
	return model.ShareKey(v.oneOf(string(model.ShareByLister), string(model.ShareByListerInstance),
		string(model.ShareByTaskType), "kwargs.<key>"))
}

// messagePriority reads a priority of AMQP.
func (v value) messagePriority() uint8 {
	n := v.whole(0)
	if n > math.MaxUint8 {
		v.problem("must be a whole number from 0 to 255")
	}
	return uint8(n)
}

func (v value) weight() float64 {
	before := len(v.errors)
	w := v.number()
	if w == 0 && len(v.errors) == before {
		v.problem("must be above 0: a group without a share would never be served")
	}
	return w
}
