package simulator

import (
	"fmt"
	"slices"
	"strings"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

// configuredPolicies is the name for the configured policies.
const configuredPolicies = "configured"

// PoliciesOf returns the policies by visit type: the named policy for all types, or the configured ones.
func PoliciesOf(name string, configured map[string][]model.WeightedPolicy) (map[string][]model.WeightedPolicy, error) {
	if name == configuredPolicies {
		return configured, nil
	}
	known := append(PolicyNames(), configuredPolicies)
	if !slices.Contains(known, name) {
		problem := fmt.Sprintf("'%s' is not one of '%s'.", name, strings.Join(known, "', '"))
		if near := config.Nearest(name, known); near != "" {
			problem += fmt.Sprintf(" Did you mean '%s'?", near)
		}
		return nil, pytext.Sentence(problem)
	}
	return map[string][]model.WeightedPolicy{"default": {{Weight: 1, Filter: model.VisitFilter{
		Policy: model.VisitPolicy(name), Cooldowns: model.DefaultCooldowns,
	}, LongestWait: model.DefaultLongestWait}}}, nil
}

// PolicyNames returns the names of all policies, sorted.
func PolicyNames() []string {
	names := []string{string(model.FirstVisitsAfterListing), string(model.Pools)}
	for _, p := range model.Policies {
		names = append(names, string(p.Name))
	}
	return slices.Sorted(slices.Values(names))
}
