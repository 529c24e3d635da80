package db

import (
	"context"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

// WaitingByGroup counts what could be claimed for the task type's queue now, by group, up to most each. It
// counts ready tasks without a priority. For a loader's type it also counts origins that one of the visit
// type's policies picks; an origin that two policies pick counts twice.
func (t transactor) WaitingByGroup(ctx context.Context, tt model.TaskType, by model.ShareKey, policies map[string][]model.WeightedPolicy, now time.Time, most int) (map[string]int, error) {
	waiting := make(map[string]int)
	return waiting, t.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if visitType, ok := model.LoadedVisitType(tt.Type); ok && by.OfVisits() {
			if err := tx.countWaitingVisits(ctx, visitType, by, model.PoliciesOf(policies, visitType), now, most, waiting); err != nil {
				return err
			}
		}
		return tx.countWaitingTasks(ctx, tt, by, now, most, waiting)
	})
}

// countWaitingVisits adds the origins that policies pick. It adds none while candidates can't be used.
func (tx *Tx) countWaitingVisits(ctx context.Context, visitType string, by model.ShareKey, policies []model.WeightedPolicy, now time.Time, most int, waiting map[string]int) error {
	listers, err := tx.VisitListers(ctx, visitType, policies)
	if err != nil {
		return err
	}
	var names []string
	var groups []origins.VisitGroup
	for _, l := range listers {
		group := model.ListerGroup(by, l)
		i := slices.Index(names, group)
		if i < 0 {
			i, names, groups = len(names), append(names, group), append(groups, origins.VisitGroup{Count: most})
		}
		groups[i].Listers = append(groups[i].Listers, l.ID)
	}
	for _, p := range model.ExpandPolicies(policies) {
		if p.Filter.VisitType = visitType; p.Weight == 0 {
			continue
		}
		counts, err := tx.CountGroupedVisits(ctx, p.Filter, now, groups)
		if err != nil {
			return err
		}
		for i, n := range counts {
			waiting[names[i]] = min(waiting[names[i]]+n, most)
		}
	}
	return nil
}

// countWaitingTasks adds the ready tasks of the type. If task types are the groups, it adds those of all
// types of the queue.
func (tx *Tx) countWaitingTasks(ctx context.Context, tt model.TaskType, by model.ShareKey, now time.Time, most int, waiting map[string]int) (err error) {
	types := []model.TaskType{tt}
	if by == model.ShareByTaskType {
		if types, err = tx.TaskTypes(ctx); err != nil {
			return err
		}
		types = slices.DeleteFunc(types, func(other model.TaskType) bool { return other.Queue() != tt.Queue() })
	}
	for _, tt := range types {
		claim, groups := ledger.TaskClaim{Type: tt, Now: now}, []string{tt.Type}
		if by != model.ShareByTaskType {
			if groups, err = tx.ReadyTaskGroups(ctx, claim, by); err != nil {
				return err
			}
		}
		for _, group := range groups {
			n, err := tx.CountReadyTasks(ctx, claim, by, group, most)
			if err != nil {
				return err
			}
			waiting[group] = min(waiting[group]+n, most)
		}
	}
	return nil
}
