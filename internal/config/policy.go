package config

import (
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/scheduler"
)

func weigh(policy scheduler.VisitPolicy, weight, tableSample float64) scheduler.WeightedPolicy {
	return scheduler.WeightedPolicy{Weight: weight, Filter: scheduler.VisitFilter{
		Policy: policy, Cooldowns: scheduler.DefaultCooldowns, TableSample: tableSample,
	}}
}

// byLag are the peer's three policies of recurring visits; the last of them,
// for origins whose listers give no date, has the weight rest.
func byLag(rest, tableSample float64) []scheduler.WeightedPolicy {
	half := (100 - rest) / 2
	return []scheduler.WeightedPolicy{
		weigh(scheduler.AlreadyVisitedOrderByLag, half, tableSample),
		weigh(scheduler.NeverVisitedOldestUpdateFirst, half, tableSample),
		weigh(scheduler.OriginsWithoutLastUpdate, rest, tableSample),
	}
}

// DefaultSchedulingPolicy is the peer's (celery_backend/recurrent_visits.py): of
// git, 0.1 % of the table's pages are looked at a time; what is archived once
// and never changes is visited until that has succeeded.
func DefaultSchedulingPolicy() map[string][]scheduler.WeightedPolicy {
	policies := map[string][]scheduler.WeightedPolicy{"default": byLag(20, 0), "git": byLag(2, 0.1)}
	for _, visitType := range []string{"hg", "svn", "cvs", "bzr"} {
		policies[visitType] = byLag(2, 0)
	}
	for _, visitType := range []string{"content", "tarball-directory", "git-checkout", "hg-checkout", "svn-export"} {
		policies[visitType] = []scheduler.WeightedPolicy{weigh(scheduler.StopAfterSuccess, 100, 0)}
	}
	return policies
}

var visitPolicies = []string{
	string(scheduler.OldestScheduledFirst),
	string(scheduler.StopAfterSuccess),
	string(scheduler.NeverVisitedOldestUpdateFirst),
	string(scheduler.AlreadyVisitedOrderByLag),
	string(scheduler.OriginsWithoutLastUpdate),
	string(scheduler.FirstVisitsAfterListing),
	string(scheduler.Pools),
}

// schedulingPolicy reads the section of that name over the defaults.
func schedulingPolicy(v value, policies map[string][]scheduler.WeightedPolicy) {
	if v.isNull() {
		return
	}
	for _, e := range v.entries("a mapping from visit types to lists of policies") {
		if e.node.Kind != yaml.SequenceNode {
			e.fail("a list of policies")
			continue
		}
		policies[e.name] = policyList(e.value)
	}
}

func policyList(v value) []scheduler.WeightedPolicy {
	var (
		list  []scheduler.WeightedPolicy
		total float64
		seen  = map[scheduler.VisitPolicy]bool{}
	)
	for i, item := range v.node.Content {
		at := value{v.reader, item, fmt.Sprintf("%s[%d]", v.key, i)}
		p := policy(at)
		if p.Filter.Policy != "" && seen[p.Filter.Policy] {
			at.problem("names a policy that is there already; a visit type has each one once")
		}
		seen[p.Filter.Policy] = true
		total += p.Weight
		list = append(list, p)
	}
	if seen[scheduler.Pools] && len(list) > 1 {
		v.problem("has other policies beside pools, which divides all slots by itself")
	}
	if total == 0 {
		v.problem("needs at least one policy with a weight above 0")
	}
	return list
}

// policy reads one entry of a list. Besides the two it must have, its keys are
// the keyword arguments of the peer's grab_next_visits; null turns a cooldown
// off, which is why this is no ordinary section. The policy pools stands alone, so
// it needs no weight.
func policy(v value) scheduler.WeightedPolicy {
	p := scheduler.WeightedPolicy{Filter: scheduler.VisitFilter{Cooldowns: scheduler.DefaultCooldowns}}
	f := &p.Filter
	required := map[string]bool{"policy": true, "weight": true}
	fields := map[string]func(value){
		"policy":             func(v value) { f.Policy = scheduler.VisitPolicy(v.oneOf(visitPolicies...)) },
		"weight":             func(v value) { p.Weight = v.number() },
		"tablesample":        func(v value) { f.TableSample = v.percentage() },
		"absolute_cooldown":  func(v value) { f.Cooldowns.Absolute = v.cooldown() },
		"scheduled_cooldown": func(v value) { f.Cooldowns.Scheduled = v.cooldown() },
		"failed_cooldown":    func(v value) { f.Cooldowns.Failed = v.cooldown() },
		"not_found_cooldown": func(v value) { f.Cooldowns.NotFound = v.cooldown() },
		"enabled":            func(v value) { f.Disabled = !v.flag() },
		"lister_uuid":        func(v value) { f.ListerID = v.uuid() },
		"lister_name":        func(v value) { f.ListerName = v.text() },
		"lister_instance_name": func(v value) {
			f.ListerInstanceName = v.text()
		},
		"timestamp": noUse, "dry_run": noUse, "visit_type": noUse, "count": noUse,
	}
	entries := v.entries("a mapping with policy and weight")
	for _, e := range entries {
		field, ok := fields[e.name]
		switch {
		case !ok:
			e.unknown(keysOf(fields), nil)
		case e.isNull() && !isCooldown(e.name) && !required[e.name]:
		default:
			delete(required, e.name)
			field(e.value)
		}
	}
	if f.Policy == scheduler.Pools && required["weight"] {
		delete(required, "weight")
		p.Weight = 1
	}
	if entries != nil {
		for _, name := range []string{"policy", "weight"} {
			if required[name] {
				v.problem("needs a " + name)
			}
		}
	}
	if f.Policy == scheduler.FirstVisitsAfterListing && !f.ListerID.Valid && f.ListerName == "" {
		v.problem("needs lister_uuid, or lister_name and lister_instance_name, with the policy first_visits_after_listing")
	}
	return p
}

func isCooldown(name string) bool {
	switch name {
	case "absolute_cooldown", "scheduled_cooldown", "failed_cooldown", "not_found_cooldown":
		return true
	}
	return false
}

// noUse refuses arguments of grab_next_visits that would make a daemon repeat
// itself.
func noUse(v value) { v.problem("is of no use to a daemon; remove it") }

// cooldown is a time for which an origin is left alone. The peer takes nothing
// but null and 0, which turn it off, YAML having no durations; here a number is
// of seconds, and a text a duration.
func (v value) cooldown() time.Duration {
	switch s := v.scalar().(type) {
	case nil:
		return 0
	case *big.Int, float64:
		return v.seconds()
	case string:
		if d, err := ParseDuration(s); err == nil || s == "" {
			return d
		}
	}
	v.fail(`a duration such as "12 hours", 12h30m, a number of seconds, or null for none`)
	return 0
}

// percentage is a number from 0 to 100; as the peer, it may be quoted.
func (v value) percentage() float64 {
	f := -1.0
	if text, ok := v.scalar().(string); ok {
		if parsed, err := strconv.ParseFloat(text, 64); err == nil {
			f = parsed
		}
	} else {
		f = v.number()
	}
	if !(f >= 0 && f <= 100) {
		v.problem("must be a percentage between 0 and 100")
	}
	return f
}

func (v value) uuid() uuid.NullUUID {
	text, _ := v.scalar().(string)
	id, err := uuid.Parse(text)
	if err != nil {
		v.fail("a UUID")
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: id, Valid: true}
}
