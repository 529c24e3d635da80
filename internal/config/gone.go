package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"swh-scheduler/internal/model"
)

// goneKey matches a lister, or an instance of one.
var goneKey = regexp.MustCompile(`^[\w.-]+(/[^\s/]+)?$`)

func goneOrigins(v value) model.GoneOrigins {
	if v.isNull() {
		return nil
	}
	rules := model.GoneOrigins{}
	for _, e := range v.entries("a mapping from listers to rules") {
		if !goneKey.MatchString(e.name) {
			e.problem("must be named as a lister (gitweb), or an instance of one (gitlab/gitlab.example)")
			continue
		}
		rules[e.name] = goneRule(e.value, model.ListerOfKey(e.name))
	}
	return rules
}

func goneRule(v value, lister string) model.GoneRule {
	r := model.DefaultGoneRule(lister)
	v.section(fieldsOf(&r, map[string]func(value){
		"full_task_types": func(v value) { r.FullTaskTypes = fullTaskTypes(v) },
		"listings": func(v value) {
			if r.Listings = v.whole(1); r.Listings > model.MaxListings {
				v.problem(fmt.Sprintf("must be at most %d", model.MaxListings))
			}
		},
		"max_share": func(v value) {
			if r.MaxShare = v.number(); r.MaxShare > 1 {
				v.problem("must be a part from 0 to 1, such as 0.05")
			}
		},
		"few": func(v value) { r.Few = v.whole(0) },
		"clock_margin": func(v value) {
			r.ClockMargin = v.durationWith(func(d time.Duration) bool { return d >= 0 && d <= 24*time.Hour }, "a duration of at most a day")
		},
	}), nil)
	if len(r.FullTaskTypes) == 0 {
		v.problem("needs full_task_types: which runs list all origins is known only of the listers " + strings.Join(model.FullListers(), ", "))
	}
	return r
}

func fullTaskTypes(v value) []string {
	types := v.texts()
	for _, taskType := range types {
		if why := model.NeverFull(taskType); why != "" {
			v.problem("has a task type whose run is no full listing: " + why)
		}
	}
	return types
}
