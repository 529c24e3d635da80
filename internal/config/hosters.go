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
		"lost_after": func(v value) {
			if h.LostAfter = v.cooldown(); h.LostAfter < time.Minute {
				v.problem("must be at least a minute")
			}
		},
	}, nil)
	return h
}

func hosterLimits(v value) map[string]model.HosterLimit {
	limits := mapping(v, "a mapping from hosters to their limits", hosterLimit)
	for hoster := range limits {
		if !model.IsInstance(hoster) && model.HostOf("https://"+hoster+"/") != hoster {
			v.problem("must name hosters as an instance of a lister (name/instance) or a host in lower case, without a port")
		}
	}
	return limits
}

func hosterLimit(v value) (l model.HosterLimit) {
	before := len(v.errors)
	v.section(fieldsOf(&l, nil), nil)
	if len(v.errors) == before && !l.Limited() {
		v.problem("needs max_in_flight, per_minute or both")
	}
	return l
}
