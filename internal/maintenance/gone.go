package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
)

// listingsKept bounds the age of the runs that are examined. Runs of one instance within it must list one address.
const listingsKept = 180 * postgres.Day

// Gone returns the job that disables origins that a full listing lacks. Its daemon needs the right to update
// listed_origins.
func Gone(store *db.Store, rules model.GoneOrigins, log *slog.Logger) Job {
	g := &gone{store: store, rules: rules, log: log}
	return Job{Name: "gone origins", Period: time.Minute, Origins: true, Unconfigured: len(rules) == 0, Do: func(ctx context.Context) (string, error) {
		disabled, err := g.run(ctx, countTime)
		err = errors.Join(err, store.TakeBackGone(ctx, store.Now(), countTime))
		if disabled == 0 {
			return "", err
		}
		return model.Count(disabled, "origin", "origins") + " disabled", err
	}}
}

type gone struct {
	store *db.Store
	rules model.GoneOrigins
	log   *slog.Logger
	steps origins.ListingSteps
}

// run examines the runs of full listings that ended since the last call. Then it counts and disables what their
// listings lack, for about atMost. An error of one lister doesn't stop the others.
func (g *gone) run(ctx context.Context, atMost time.Duration) (disabled int64, err error) {
	if err := g.examine(ctx); err != nil {
		return 0, err
	}
	listings, err := g.store.FullListings(ctx)
	if err != nil {
		return 0, err
	}
	var failed []error
	began := time.Now()
	for _, l := range listings {
		rule, ok := g.rules.Rule(listerOf(l))
		for state := l.State; ok && time.Since(began) < atMost && (state == origins.ListingCounting || state == origins.ListingDisabling); {
			before, n := state, int64(0)
			if state, n, err = g.store.StepFullListing(ctx, &g.steps, l.ID, rule); err != nil {
				failed = append(failed, err)
				break
			}
			if disabled += n; state != before {
				g.report(ctx, l, state)
			}
		}
	}
	return disabled, errors.Join(failed...)
}

func listerOf(l origins.FullListing) model.Lister {
	return model.Lister{ID: l.ID, Name: l.Name, InstanceName: l.InstanceName}
}

// report logs a new state of a full listing.
func (g *gone) report(ctx context.Context, of origins.FullListing, state string) {
	all, err := g.store.FullListings(ctx)
	i := slices.IndexFunc(all, func(l origins.FullListing) bool { return l.ID == of.ID })
	if err != nil || i < 0 {
		return
	}
	l := all[i]
	fields := []any{"lister", l.Name, "instance", l.InstanceName, "run", *cmp.Or(l.Run, new(int64)), "listing_ended", l.Ended, "enabled", l.Enabled, "missing", l.Missing}
	switch state {
	case origins.ListingHeld:
		g.log.Warn("a full listing lacks more origins than may go at once: none is disabled until an operator decides (swh-scheduler lister gone)", append(fields, "allowed", l.Allowed)...)
	case origins.ListingDone:
		if l.Disabled > 0 {
			g.log.Info("disabled the origins that a full listing lacks", append(fields, "disabled", l.Disabled)...)
		}
	}
}

// examine decides which ended runs are full listings, and begins to count what the newest of each instance lacks. It
// leaves instances alone whose last listing is not done with.
func (g *gone) examine(ctx context.Context) error {
	now := g.store.Now()
	types, err := g.store.TaskTypes(ctx)
	if err != nil {
		return err
	}
	runs, err := g.store.LastListings(ctx, g.rules.TaskTypes(types), now.Add(-listingsKept))
	if err != nil {
		return err
	}
	listings, err := g.store.FullListings(ctx)
	if err != nil {
		return err
	}
	instances := map[string]int{}
	for _, l := range listings {
		instances[l.Name]++
	}
	slices.SortFunc(runs, model.Newest)
	var failed []error
	for _, l := range listings {
		rule, ok := g.rules.Rule(listerOf(l))
		if !ok || l.State == origins.ListingCounting || l.State == origins.ListingDisabling {
			continue
		}
		if e := examination(l, rule, runsOf(l, rule, runs, instances[l.Name] == 1), now); e != nil {
			failed = append(failed, g.store.NoteExamined(ctx, *e))
			if e.Doubt != "" {
				g.log.Info("a listing does not count as full", "lister", l.Name, "instance", l.InstanceName, "run", e.Newest, "reason", e.Doubt)
			}
		}
	}
	return errors.Join(failed...)
}

// runsOf returns the runs that list an instance, full ones or not.
func runsOf(l origins.FullListing, rule model.GoneRule, runs []model.ListingRun, only bool) (of []model.ListingRun) {
	for _, run := range runs {
		if rule.ListsFor(l.Name, run.TaskType) && run.Lists(l.InstanceName, only) {
			of = append(of, run)
		}
	}
	return of
}

// examination examines the ended runs of full listings of an instance, the newest first, down to the last examined one.
// It returns nil if none is new. listing are all runs that list the instance, also those that have not ended.
func examination(l origins.FullListing, rule model.GoneRule, listing []model.ListingRun, now time.Time) *origins.Examination {
	runs := slices.DeleteFunc(slices.Clone(listing), func(run model.ListingRun) bool {
		return run.Ended == nil || !slices.Contains(rule.FullTaskTypes, run.TaskType)
	})
	if len(runs) == 0 || runs[0].ID <= l.Examined {
		return nil
	}
	e := &origins.Examination{Lister: l.ID, Newest: runs[0].ID, Listings: rule.Listings}
	if urls := model.Elsewhere(listing); urls != nil {
		e.Doubt = fmt.Sprintf("tasks list this instance at several addresses (%.80s, %.80s), and each leaves the others' origins out", urls[0], urls[1])
		return e
	}
	for _, run := range runs {
		if run.ID <= l.Examined {
			break
		}
		cutoff, doubt := rule.Certain(run, []time.Time{l.LastEnd, l.PreviousEnd}, now)
		if doubt == "" {
			e.Full, e.Cutoff = &run, cutoff
			break
		}
		e.Doubt = cmp.Or(e.Doubt, doubt)
	}
	return e
}
