package config

import (
	"time"

	"swh-scheduler/internal/model"
)

func hostersOf(v value) model.Hosters {
	h := model.Hosters{LostAfter: model.DefaultHosterLostAfter}
	v.section(map[string]func(value){
		"limits":  func(v value) { h.Limits = hosterLimits(v) },
		"default": func(v value) { h.Default = hosterLimit(v) },
		"backoff": func(v value) { h.Backoff = hosterBackoff(v) },
		"lost_after": func(v value) {
			if h.LostAfter = v.cooldown(); h.LostAfter < time.Minute {
				v.problem("must be at least a minute")
			}
		},
	}, nil)
	return h
}

func hosterLimits(v value) map[string]model.HosterLimit {
	if v.isNull() {
		return nil
	}
	limits := map[string]model.HosterLimit{}
	for _, e := range v.entries("a mapping from hosters to their limits") {
		limits[e.name] = hosterLimit(e.value)
		if e.name == "" || !model.IsInstance(e.name) && model.HostOf("https://"+e.name+"/") != e.name {
			e.problem("must be named as an instance of a lister (name/instance) or a host in lower case, without a port")
		}
	}
	return limits
}

func hosterLimit(v value) (l model.HosterLimit) {
	before := len(v.errors)
	v.section(fieldsOf(&l, nil), nil)
	if len(v.errors) != before {
		return l
	}
	switch {
	case l == model.HosterLimit{}:
		v.problem("needs max_in_flight, per_minute, min_in_flight or no_backoff")
	case l.MaxInFlight > 0 && l.MinInFlight > l.MaxInFlight:
		v.problem("has a min_in_flight above max_in_flight")
	}
	return l
}

func hosterBackoff(v value) *model.HosterBackoff {
	b := model.DefaultHosterBackoff
	before := len(v.errors)
	v.section(map[string]func(value){
		"min": func(v value) {
			if b.Min = v.cooldown(); b.Min < time.Second {
				v.problem("must be at least a second")
			}
		},
		"max": func(v value) {
			if b.Max = v.cooldown(); b.Max > 30*24*time.Hour {
				v.problem("must be at most 30 days")
			}
		},
	}, nil)
	if len(v.errors) == before && b.Max < b.Min {
		v.problem("has a max below its min")
	}
	return &b
}
