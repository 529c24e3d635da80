package origins

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// KnownToCandidates reports whether a grab can select by the filter from candidates. Candidates lack
// disabled origins. For a filter with TableSample they select from all origins, at no higher cost, unless
// the filter is Inexact.
func KnownToCandidates(f model.VisitFilter) bool {
	return f.Rule() != nil && !f.Disabled && (f.TableSample == 0 || !f.Inexact && f.TableSample <= 100)
}

const (
	// minWalked and walkedPart bound the candidates that a grab reads for a filter without an index:
	// minWalked, or one in walkedPart of the visit type's if that is more. Reading more would cost about as
	// much as reading the Python scheduler's tables, so the grab reads these instead.
	minWalked  = 20_000
	walkedPart = 30
)

// builtCandidates are two CTEs. built has a row if candidates can be used (with @forks: and distinguish
// forks; with @moments: and have moments). pending has the origins with pending changes, whose candidates
// may be outdated. An origin is cooling if all its changes are marks of claims since @cooling_since.
const builtCandidates = `built as materialized (
	select from scheduler_go.candidate_build
	where phase = 'ready' and (by_fork or not @forks) and (by_freshness or not @moments) and @max_pending::bigint >= (select count(*) from (
		select from ` + pendingChanges + ` limit @max_pending::bigint + 1) c)
), pending as materialized (
	select url, bool_and(coalesce(scheduled >= @cooling_since, false)) as cooling from (
		select url, scheduled from ` + pendingChanges + ` limit @max_pending::bigint) c
	group by url
)`

const pendingChanges = `scheduler_go.candidate_changes
		where visit_type = @visit_type and place >= (select changes_low from scheduler_go.low_water)`

// candidateFilter is a filter on candidates c, except its policy.
type candidateFilter struct {
	p          *model.Policy
	byLister   bool     // wanted has listers, and candidates have an index by lister
	conditions []string // on c and, if stats, on its row ovs of origin_visit_stats
	stats      bool
	bounded    bool     // no index supports the conditions
	ranges     []string // SQL: parts of the policy's order that may meet the conditions; empty: all of it

	// These select the parked candidates that may be due. The grab reads all with a due date before the SQL
	// expression parkedUntil ("": all). It walks those that meet a condition in early by its index.
	parkedUntil string
	early       []string
}

// filterCandidates translates a filter. The due dates of candidates include the default cooldowns; other
// cooldowns become conditions.
func (q *grabQuery) filterCandidates(ctx context.Context, tx *Tx, f model.VisitFilter, now time.Time) (candidateFilter, error) {
	cf := candidateFilter{p: f.Rule(), byLister: q.grouped, parkedUntil: "@now"}
	if f.Cooldowns == model.DefaultCooldowns {
		cf.conditions = []string{"c.due < @now"}
	} else {
		q.where = nil
		q.cooldowns(f.Cooldowns, now)
		cf.conditions, cf.stats, cf.bounded = q.where, len(q.where) > 0, true
		if err := q.addEarly(ctx, tx, f.Cooldowns.Shorter(), now, &cf); err != nil {
			return cf, err
		}
	}
	if f.Policy == model.Freshness {
		cf.conditions = append(cf.conditions, momentHasCome)
	}
	if f.WaitsForDate() {
		cf.conditions = append(cf.conditions, dateHasPassed)
	}
	if f.Policy == model.FirstVisitsAfterListing {
		condition, err := q.notScheduledSinceListing(ctx, tx, f)
		if err != nil {
			return cf, err
		}
		cf.conditions, cf.bounded = append(cf.conditions, condition), true
		cf.ranges = sinceListing
	}
	if open := q.openHosts("c"); len(open) > 0 {
		cf.conditions, cf.bounded = append(cf.conditions, open...), true
	}
	if q.grouped { // the groups have only listers that meet the filter
		return cf, nil
	}
	err := q.filterListers(ctx, tx, f, &cf)
	return cf, err
}

// addEarly selects the parked candidates that shorter cooldowns may make due now. Without indexes for them,
// it selects all with a due date within the largest difference. With them, it selects only those that one
// of these cooldowns holds back, within its own difference.
func (q *grabQuery) addEarly(ctx context.Context, tx *Tx, shorter []model.ShorterCooldown, now time.Time, cf *candidateFilter) error {
	if len(shorter) == 0 {
		return nil
	}
	build, err := tx.q.BuildPhase(ctx)
	if err != nil {
		return err
	}
	if build.ByCooldown {
		for _, c := range shorter {
			held := "c.parked and " + candidates.HeldBy + " = '" + c.Name + "' and c.due >= @now"
			if !c.Off {
				q.args["early_"+c.Name] = now.Add(c.By)
				held += " and c.due < @early_" + c.Name
			}
			cf.early = append(cf.early, held)
		}
		return nil
	}
	cf.parkedUntil = "@parked_until"
	most := time.Duration(0)
	for _, c := range shorter {
		most = max(most, c.By)
		if c.Off {
			cf.parkedUntil = ""
		}
	}
	q.args["parked_until"] = now.Add(most)
	return nil
}

// filteredListers returns the listers of a filter. filtered is false if the filter has no condition on
// listers.
func (tx *Tx) filteredListers(ctx context.Context, f model.VisitFilter) (listers []uuid.UUID, filtered bool, err error) {
	if !f.ListerID.Valid && f.ListerName == "" && f.ListerInstanceName == "" {
		return nil, false, nil
	}
	listers, err = tx.q.FilteredListers(ctx, queries.FilteredListersParams{ID: f.ListerID, Name: f.ListerName, InstanceName: f.ListerInstanceName})
	return listers, true, stmt.Failed(err, "find the listers of a filter")
}

// filterListers restricts cf to the listers of a filter, or to all except those of closed instances.
func (q *grabQuery) filterListers(ctx context.Context, tx *Tx, f model.VisitFilter, cf *candidateFilter) error {
	listers, some, err := tx.filteredListers(ctx, f)
	open := q.openListers("c")
	if err != nil || !some && len(open) == 0 {
		return err
	}
	build, err := tx.q.BuildPhase(ctx)
	if err != nil {
		return err
	}
	q.byLister = build.ByLister && !some
	if !some {
		listers = q.room.instances()
	}
	if cf.byLister = build.ByLister && (some || q.eachLister); cf.byLister {
		q.want([]VisitGroup{{Listers: listers, Count: q.groups[0].Count}})
		return nil
	}
	if some {
		q.args["listers"] = listers
		open = append(open, "c.lister_id = any(@listers::uuid[])")
	}
	cf.conditions, cf.bounded = append(cf.conditions, open...), true
	return nil
}

// grabCandidates runs a grab on candidates. usable is false during a build, with too many pending changes,
// or if it would read too many candidates.
func (tx *Tx) grabCandidates(ctx context.Context, q *grabQuery, f model.VisitFilter, now time.Time, dryRun bool) (visits []GrabbedVisit, usable bool, err error) {
	if !dryRun {
		if err := tx.drainPending(ctx, f.VisitType); err != nil {
			return nil, false, err
		}
	}
	if err := q.selectFromCandidates(ctx, tx, f, now); err != nil {
		return nil, false, err
	}
	q.pinned = true
	visits, usable, err = tx.runGrab(ctx, q)
	q.pinned = false
	return visits, usable, err
}

// selectFromCandidates sets q.selected to the CTEs that select from candidates by the filter.
func (q *grabQuery) selectFromCandidates(ctx context.Context, tx *Tx, f model.VisitFilter, now time.Time) error {
	q.ask()
	cf, err := q.filterCandidates(ctx, tx, f, now)
	if err != nil {
		return err
	}
	q.args["max_pending"], q.args["forks"], q.args["moments"] = cmp.Or(q.maxPending, MaxPendingChanges), f.Forks != model.ForksToo, f.Policy == model.Freshness
	q.args["cooling_since"] = nil
	if f.Cooldowns.Absolute > 0 {
		q.args["cooling_since"] = now.Add(-f.Cooldowns.Absolute)
	}
	q.selected = cf.selected()
	return nil
}

// selected returns CTEs that select the same as selectFromTables: for each row of wanted, the first origins
// in the policy's order. They merge three sources in one snapshot: walks of unparked and early candidates;
// the other parked candidates; the current state of origins with pending changes.
//
// If a bounded walk ends with too few, nothing is selected: more might follow.
//
// found also has the rows of other listers for the same URLs, without a lister, for the latest update. at is the place
// of the row's candidate; null for these rows, and for an origin with pending changes.
func (cf *candidateFilter) selected() string {
	order := " order by " + cf.p.OrderBy
	candidate := strings.Join(slices.Concat([]string{"exists (select from built)", "c.visit_type = @visit_type"}, cf.p.SQL()), " and ")
	unchanged := "select c.ctid as at, c.* from scheduler_go.candidates c where " + candidate + " and c.url not in (select url from pending)"
	met, ofWanted, parkedFirst := cf.met(), "true", order+" limit @count"
	if cf.byLister {
		ofWanted, parkedFirst = "c.lister_id = w.lister_id", ""
	}
	parts := append([]string{"not c.parked"}, cf.early...)
	if len(cf.ranges) > 0 {
		var divided []string
		for _, part := range parts {
			for _, r := range cf.ranges {
				divided = append(divided, part+" and "+r)
			}
		}
		parts = divided
	}
	parked := ""
	if cf.parkedUntil != "" {
		parked = " and c.due < " + cf.parkedUntil
	}
	var found, short []string
	bound, cut := "", ""
	for i, part := range parts {
		walk, wanted := unchanged+" and "+ofWanted+" and "+part, ""
		if cf.bounded {
			bound, wanted = " limit (select rows from most)", met
			walk += order + bound
			short = append(short, fmt.Sprintf(`case when (select count(*) from walked c where walk = %d and %s) < w.count
		then (select count(*) from (%s) c) >= (select rows from most) end`, i, ofWanted, walk))
		} else {
			walk += " and " + strings.Join(cf.conditions, " and ") + order
		}
		found = append(found, fmt.Sprintf("(select %d as walk, c.* from (%s) c%s%s limit w.count)", i, walk, wanted, order))
	}
	if cf.bounded {
		cut = " where (select count(*) from parked) < (select rows from most) and not exists (select from wanted w where " + strings.Join(short, "\n\t\tor ") + ")"
	}
	return builtCandidates + `, ` + cf.wanted() + `, walked as materialized (
	select w.place, w.count, c.* from wanted w cross join lateral (
		` + strings.Join(found, "\n\t\tunion all ") + `) c
), parked as materialized (
	` + unchanged + ` and c.parked` + parked + " order by c.due" + bound + `
), usable as materialized (
	select from built` + cut + `
), first as (
	select * from (
		select c.*, row_number() over (partition by c.place` + order + `) as turn
		from (
			table walked
			union all
			(select w.place, w.count, null, c.* from (select * from parked c` + order + `) c join wanted w on ` + ofWanted + met + parkedFirst + `)
			union all
			select w.place, w.count, null, null::tid, c.* from pending join scheduler_go.candidates_now c on c.url = pending.url and not pending.cooling
			join wanted w on ` + ofWanted + met + ` and ` + candidate + `
		) c
	) c where turn <= count and exists (select from usable)
), found as materialized (
	select lo.url, coalesce(date_part('epoch', lo.last_update), '-infinity') as updated, ` + originColumns + `,
	       case when lo.lister_id = c.lister_id then lo.lister_id end as lister_id, case when lo.lister_id = c.lister_id then ` + whyNotSent + ` end as odd,
	       c.queue_position as next_visit_queue_position, c.place, case when lo.lister_id = c.lister_id then c.at end as at
	from first c join listed_origins lo on lo.url = c.url and lo.visit_type = c.visit_type
	order by c.place, c.turn
), selected as not materialized (
	select * from found where lister_id is not null
)`
}

// wanted returns the CTE wanted. If a walk is bounded, it also returns the CTE most, the number of
// candidates that a walk reads.
func (cf *candidateFilter) wanted() string {
	cte := "wanted as materialized (select 0 as place, @count::bigint as count)"
	if cf.byLister {
		cte = wanted
	}
	if cf.bounded {
		cte += fmt.Sprintf(`, most as materialized (
	select greatest(%d, 2 * (select max(count) from wanted), (
		select (without_update + with_update) / %d from scheduler_go.candidate_groups where visit_type = @visit_type)) as rows
)`, minWalked, walkedPart)
	}
	return cte
}

// met returns joins and conditions for a FROM clause with candidates c.
func (cf *candidateFilter) met() string {
	met := " where true"
	if cf.stats {
		met = " left join origin_visit_stats ovs on ovs.url = c.url and ovs.visit_type = c.visit_type" + met
	}
	return strings.Join(append([]string{met}, cf.conditions...), " and ")
}
