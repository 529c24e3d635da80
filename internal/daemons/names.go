package daemons

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
)

// warnOfShares warns of unknown task types and groups.
func warnOfShares(ctx context.Context, p *process.Process, shares map[string]model.Shares) error {
	types, err := p.Store.TaskTypes(ctx)
	if err != nil {
		return err
	}
	listers, err := p.Store.Listers(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		if _, _, ok := model.TypeOf(name, types); !ok {
			warnOfName(p.Log, "shares are configured for a task type that does not exist", name, typeNames(types))
			continue
		}
		known := groupsThatCanBe(shares[name].By, types, listers)
		for _, group := range slices.Sorted(maps.Keys(shares[name].Weights)) {
			if known != nil && !slices.Contains(known, group) {
				warnOfName(p.Log, "shares give a weight to a group that does not exist", group, known)
			}
		}
	}
	return nil
}

func typeNames(types []model.TaskType) []string {
	names := make([]string, len(types))
	for i, tt := range types {
		names[i] = tt.Type
	}
	return names
}

// groupsThatCanBe returns the possible groups; nil if they are unknown.
func groupsThatCanBe(by model.ShareKey, types []model.TaskType, listers []model.Lister) []string {
	var names []string
	switch by {
	case model.ShareByTaskType:
		names = typeNames(types)
	case model.ShareByLister, model.ShareByListerInstance:
		for _, l := range listers {
			names = append(names, model.ListerGroup(by, l))
		}
	default:
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func warnOfName(log *slog.Logger, problem, name string, known []string) {
	log = log.With("name", name)
	if near := config.Nearest(name, known); near != "" {
		log = log.With("did_you_mean", near)
	}
	log.Warn(problem)
}
