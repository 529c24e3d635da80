package config

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

func weigh(policy model.VisitPolicy, weight, tableSample float64) model.WeightedPolicy {
	return model.WeightedPolicy{Weight: weight, Filter: model.VisitFilter{
		Policy: policy, Cooldowns: model.DefaultCooldowns, TableSample: tableSample,
	}}
}

// byLag returns the Python scheduler's three policies of recurring visits. rest is the weight of the last one, for
// origins whose listers give no date.
func byLag(rest, tableSample float64) []model.WeightedPolicy {
	half := (100 - rest) / 2
	return []model.WeightedPolicy{
		weigh(model.AlreadyVisitedOrderByLag, half, tableSample),
		weigh(model.NeverVisitedOldestUpdateFirst, half, tableSample),
		weigh(model.OriginsWithoutLastUpdate, rest, tableSample),
	}
}

// DefaultSchedulingPolicy is the Python scheduler's (celery_backend/recurrent_visits.py).
func DefaultSchedulingPolicy() map[string][]model.WeightedPolicy {
	policies := map[string][]model.WeightedPolicy{"default": byLag(20, 0), "git": byLag(2, 0.1)}
	for _, visitType := range []string{"hg", "svn", "cvs", "bzr"} {
		policies[visitType] = byLag(2, 0)
	}
	for _, visitType := range []string{"content", "tarball-directory", "git-checkout", "hg-checkout", "svn-export"} {
		policies[visitType] = []model.WeightedPolicy{weigh(model.StopAfterSuccess, 100, 0)}
	}
	return policies
}

var visitPolicies = func() (names []string) {
	for _, p := range model.Policies {
		if !p.Ours {
			names = append(names, string(p.Name))
		}
	}
	return append(names, string(model.FirstVisitsAfterListing), string(model.Pools), string(model.Freshness))
}()

// policyList reads the policies of a visit type.
func policyList(v value) (list []model.WeightedPolicy) {
	if v.node.Kind != yaml.SequenceNode {
		v.fail("a list of policies")
		return nil
	}
	total, seen := 0.0, map[model.VisitPolicy]bool{}
	for i := range v.node.Content {
		at := v.item(i)
		p := policy(at)
		if p.Filter.Policy != "" && seen[p.Filter.Policy] {
			at.problem("names a policy that the visit type already has")
		}
		seen[p.Filter.Policy] = true
		total += p.Weight
		list = append(list, p)
	}
	if seen[model.Pools] && len(list) > 1 {
		v.problem("has other policies beside pools, which divides all slots by itself")
	}
	if total == 0 {
		v.problem("needs at least one policy with a weight above 0")
	}
	return list
}

// policy reads one entry of a list. Its keys are policy, weight, exact, forks, longest_wait and the keyword
// arguments of the Python scheduler's grab_next_visits. It does not use section, because null turns a cooldown off.
// The policy pools needs no weight.
func policy(v value) model.WeightedPolicy {
	p := model.WeightedPolicy{Filter: model.VisitFilter{Cooldowns: model.DefaultCooldowns}}
	f, fields := &p.Filter, policyFields(&p)
	required := map[string]bool{"policy": true, "weight": true}
	v.accept(fields)
	entries := v.entries("a mapping with policy and weight")
	for _, e := range entries {
		field, ok := fields[e.name]
		switch {
		case !ok:
			e.unknown(keysOf(fields), nil)
		case e.isNull() && !strings.HasSuffix(e.name, "_cooldown") && !required[e.name]:
		default:
			delete(required, e.name)
			field(e.value)
		}
	}
	if f.Policy == model.Pools && required["weight"] {
		delete(required, "weight")
		p.Weight = 1
	}
	switch {
	case f.Policy == model.Freshness && p.LongestWait == 0:
		p.LongestWait = model.DefaultLongestWait
	case f.Policy != model.Freshness && p.LongestWait != 0:
		v.problem("has a longest_wait, which only the policy freshness has")
	}
	if entries != nil {
		for _, name := range []string{"policy", "weight"} {
			if required[name] {
				v.problem("needs a " + name)
			}
		}
	}
	if f.Policy == model.FirstVisitsAfterListing && !f.ListerID.Valid && f.ListerName == "" {
		v.problem("needs lister_uuid, or lister_name and lister_instance_name, with the policy first_visits_after_listing")
	}
	return p
}

// policyFields returns the functions that set the fields of p, by the keys of an entry.
func policyFields(p *model.WeightedPolicy) map[string]func(value) {
	f := &p.Filter
	return map[string]func(value){
		"policy":      func(v value) { f.Policy = model.VisitPolicy(v.oneOf(visitPolicies...)) },
		"weight":      func(v value) { p.Weight = v.number() },
		"tablesample": func(v value) { f.TableSample = v.percentage() },
		"exact":       func(v value) { f.Inexact = !v.flag() },
		"forks": func(v value) {
			if p.Forks = v.number(); !(p.Forks > 0 && p.Forks < 1) {
				v.problem("must be a part of the policy's visits, above 0 and below 1")
			}
		},
		"longest_wait": func(v value) {
			if p.LongestWait = v.duration("a duration"); p.LongestWait < 24*time.Hour || p.LongestWait > maxInterval {
				v.problem("must be from a day to 100 years")
			}
		},
		"absolute_cooldown":    func(v value) { f.Cooldowns.Absolute = v.cooldown() },
		"scheduled_cooldown":   func(v value) { f.Cooldowns.Scheduled = v.cooldown() },
		"failed_cooldown":      func(v value) { f.Cooldowns.Failed = v.cooldown() },
		"not_found_cooldown":   func(v value) { f.Cooldowns.NotFound = v.cooldown() },
		"enabled":              func(v value) { f.Disabled = !v.flag() },
		"lister_uuid":          func(v value) { f.ListerID = v.uuid() },
		"lister_name":          func(v value) { f.ListerName = v.text() },
		"lister_instance_name": func(v value) { f.ListerInstanceName = v.text() },
		"timestamp":            noUse, "dry_run": noUse, "visit_type": noUse, "count": noUse,
	}
}

// noUse refuses arguments of grab_next_visits that make no sense in a daemon.
func noUse(v value) { v.problem("is of no use to a daemon; remove it") }

// cooldown reads a duration, or null or "" for none.
func (v value) cooldown() time.Duration {
	if s := v.scalar(); s == nil || s == "" {
		return 0
	}
	return v.duration(`a duration such as "12 hours", 12h30m, a number of seconds, or null for none`)
}

// duration reads a text that pytext.ParseDuration takes, or a number of seconds, such as YAML's 12:30:00.
func (v value) duration(expected string) time.Duration {
	switch s := v.scalar().(type) {
	case *big.Int, float64:
		return v.seconds()
	case string:
		if d, err := pytext.ParseDuration(s); err == nil {
			return d
		}
	}
	v.fail(expected, "a text")
	return 0
}

// percentage reads a number from 0 to 100, which may be quoted, as with the Python scheduler.
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
		v.fail("a UUID", "a text")
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: id, Valid: true}
}
