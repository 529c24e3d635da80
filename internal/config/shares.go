package config

import (
	"maps"
	"regexp"
	"time"

	"swh-scheduler/internal/scheduler"
)

// shareKwarg is what may follow "kwargs." in a share's key: a Python name, not
// longer than fits into the name of an index.
var shareKwarg = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,29}$`)

// shares reads the section of that name, by task type.
func shares(v value) map[string]scheduler.Shares {
	if v.isNull() {
		return nil
	}
	all := map[string]scheduler.Shares{}
	for _, e := range v.entries("a mapping from task types to how their queues are shared") {
		all[e.name] = shareOf(e.value)
	}
	return all
}

func shareOf(v value) scheduler.Shares {
	before := len(v.errors)
	s := scheduler.Shares{HalfLife: scheduler.DefaultShareHalfLife}
	fields := map[string]func(value){
		"by":      func(v value) { s.By = shareKey(v) },
		"weights": func(v value) { s.Weights = shareWeights(v) },
		"default": func(v value) { s.Default = v.weight() },
		"half_life": func(v value) {
			if s.HalfLife = v.cooldown(); s.HalfLife < time.Second {
				v.problem("must be at least a second")
			}
		},
	}
	v.section(fields, func(e entry) { e.unknown(keysOf(fields), nil) })
	if s.By == "" && len(v.errors) == before {
		v.problem("needs by: lister, lister_instance, task_type or kwargs.<key>")
	}
	if s.Default == 0 {
		s.Default = mean(s.Weights)
	}
	return s
}

// mean is the weight of groups without one where the file gives none for them:
// neither above nor below the others'.
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

func shareKey(v value) scheduler.ShareKey {
	text, _ := v.scalar().(string)
	key := scheduler.ShareKey(text)
	if kwarg, ok := key.Kwarg(); ok {
		if !shareKwarg.MatchString(kwarg) {
			v.problem("must name one keyword argument after kwargs. (at most 30 letters, digits and _)")
		}
		return key
	}
	return scheduler.ShareKey(v.oneOf(string(scheduler.ShareByLister), string(scheduler.ShareByListerInstance),
		string(scheduler.ShareByTaskType), "kwargs.<key>"))
}

func shareWeights(v value) map[string]float64 {
	weights := map[string]float64{}
	for _, e := range v.entries("a mapping from groups to weights") {
		weights[e.name] = e.weight()
	}
	return weights
}

// weight is a number above 0: a group of weight 0 would never get anything.
func (v value) weight() float64 {
	before := len(v.errors)
	w := v.number()
	if w == 0 && len(v.errors) == before {
		v.problem("must be above 0: a group without a share would never be served")
	}
	return w
}
