package explain

import (
	"context"
	"slices"
)

// otherRunners returns the options of the runners that run now, if each of them is restricted to other task types.
// Runners report them once a minute.
func (x *Gatherer) otherRunners(ctx context.Context, runner, taskType string) (options []string, err error) {
	restrictions, err := x.Store.Restrictions(ctx, runner)
	for _, r := range restrictions {
		if r.Admits(taskType) {
			return nil, err
		}
		options = append(options, r.String())
	}
	slices.Sort(options)
	return slices.Compact(options), err
}
