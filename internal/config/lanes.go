package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/model"
)

// lanesOf reads two or more lanes of a task type, in the order of growing time limits.
func lanesOf(v value) []model.Lane {
	var all []model.Lane
	if v.node.Kind != yaml.SequenceNode {
		v.fail("a list of lanes: {name, queue, time_limit, slots}")
		return nil
	}
	for i := range v.node.Content {
		item := v.item(i)
		l := laneOf(item)
		for _, other := range all {
			if l.Name != "" && l.Name == other.Name {
				item.problem("has the name of another lane")
			}
			if l.Queue != "" && l.Queue == other.Queue {
				item.problem("has the queue of another lane: a message there could belong to either")
			}
		}
		if l.Retry && i < len(v.node.Content)-1 {
			item.problem("can't have retry: work that times out here goes to the next lane, so only the last lane may have it")
		}
		if i > 0 && l.SoftTimeLimit > 0 && l.SoftTimeLimit <= all[i-1].SoftTimeLimit {
			item.problem(fmt.Sprintf("needs a longer time_limit than the lane before it (%s): work that times out there goes to this lane", all[i-1].SoftTimeLimit))
		}
		all = append(all, l)
	}
	if waiting := slices.DeleteFunc(slices.Clone(all), func(l model.Lane) bool { return l.TargetWait == 0 }); len(waiting) == 1 {
		v.problem("must have target_wait in two lanes or more, or none: slots move between lanes that have one")
	}
	if len(all) == 1 {
		v.problem("must be two or more lanes: work that times out in one goes to the next")
	}
	return all
}

func laneOf(v value) model.Lane {
	before := len(v.errors)
	l := model.Lane{Queue: model.BackendNameInQueue, MinSlots: 1}
	v.section(fieldsOf(&l, map[string]func(value){
		"time_limit":  func(v value) { l.SoftTimeLimit, l.TimeLimit = v.timeLimits() },
		"target_wait": func(v value) { l.TargetWait = v.timeLimit() },
	}), nil)
	switch {
	case len(v.errors) > before:
	case l.Name == "":
		v.problem("needs a name")
	case l.SoftTimeLimit == 0:
		v.problem("needs a time_limit, such as 1 min")
	case l.Slots > 0 && l.MinSlots > l.Slots:
		v.problem("must not have more min_slots than slots")
	case l.MaxSlots > 0 && (l.Slots > l.MaxSlots || l.MinSlots > l.MaxSlots):
		v.problem("must not have fewer max_slots than slots")
	case strings.Contains(strings.ReplaceAll(l.Queue, model.BackendNameInQueue, ""), "{"):
		v.problem("can have {backend_name} in its queue and nothing else in braces")
	}
	return l
}

// timeLimits reads a soft and a hard limit: {soft: …, hard: …}, or one duration. For one duration, the hard limit is
// a tenth longer, by at least a second.
func (v value) timeLimits() (soft, hard time.Duration) {
	if v.node.Kind != yaml.MappingNode {
		soft = v.timeLimit()
		return soft, soft + max(soft/10, time.Second)
	}
	before := len(v.errors)
	v.section(map[string]func(value){
		"soft": func(v value) { soft = v.timeLimit() },
		"hard": func(v value) { hard = v.timeLimit() },
	}, nil)
	if len(v.errors) == before && (soft == 0 || hard < soft) {
		v.problem("needs a soft limit and a hard one that is not before it")
	}
	return soft, hard
}

// timeLimit reads one limit, of at least a second: workers measure no finer.
func (v value) timeLimit() time.Duration {
	before := len(v.errors)
	d := v.cooldown()
	if d < time.Second && len(v.errors) == before {
		v.problem("must be at least a second")
	}
	return d
}
