package db

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"swh-scheduler/internal/model"
)

// pinPlans restricts the planner to walks along indexes and look-ups by key, which is
// what candidates are for; it cannot know how few of the parked are due, or how
// many changes are pending. unpinPlans restores the connection's settings.
const (
	pinPlans = `set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_sort = off;
		set local enable_hashjoin = off; set local enable_mergejoin = off; set local jit = off`
	unpinPlans = `set local enable_seqscan to default; set local enable_bitmapscan to default; set local enable_sort to default;
		set local enable_hashjoin to default; set local enable_mergejoin to default; set local jit to default`
)

// KnownToCandidates reports whether candidates can answer a filter: they know the
// default cooldowns only, and nothing of listers.
func KnownToCandidates(f model.VisitFilter) bool {
	return f.Policy.Policy() != nil && f.Cooldowns == model.DefaultCooldowns && !f.Disabled && f.TableSample == 0 &&
		!f.ListerID.Valid && f.ListerName == "" && f.ListerInstanceName == ""
}

// usableCandidates are CTEs: usable has a row if candidates can be used, pending has the
// origins with pending changes, whose candidates may be outdated.
const usableCandidates = `usable as materialized (
	select from scheduler_go.candidate_build
	where phase = 'ready' and @max_pending::bigint >= (select count(*) from (
		select from scheduler_go.candidate_changes where visit_type = @visit_type limit @max_pending::bigint + 1) c)
), pending as materialized (
	select distinct url from (
		select url from scheduler_go.candidate_changes where visit_type = @visit_type limit @max_pending::bigint) c
)`

const unchangedCandidate = "c.url not in (select url from pending)"

// eligible are the conditions of a candidate c that a policy may pick now.
func eligible(p *model.Policy, more ...string) string {
	return strings.Join(slices.Concat([]string{"exists (select from usable)", "c.visit_type = @visit_type", "c.due < @now"}, p.SQL(), more), " and ")
}

// grabCandidates runs a grab on candidates, and reports whether they could be used: not
// while they are being built or too many changes are pending.
func (tx *Tx) grabCandidates(ctx context.Context, q *grabQuery, f model.VisitFilter, dryRun bool) (visits []GrabbedVisit, usable bool, err error) {
	if !dryRun {
		if err := tx.drainPending(ctx, f.VisitType); err != nil {
			return nil, false, err
		}
	}
	q.args["max_pending"] = maxPendingChanges
	q.selected = selectedFromCandidates(f.Policy.Policy())
	if q.grouped {
		q.selected = groupedFromCandidates(f.Policy.Policy())
	}
	if _, err := tx.tx.Exec(ctx, pinPlans); err != nil {
		return nil, false, err
	}
	if visits, usable, err = tx.runGrab(ctx, q); err == nil {
		_, err = tx.tx.Exec(ctx, unpinPlans)
	}
	return visits, usable, err
}

// selectedFromCandidates selects what selectFromTables selects: the first of the
// candidates in the policy's order, of the parked ones that are due, and of the origins
// with pending changes, read as they are now. All of it is seen in one snapshot.
func selectedFromCandidates(p *model.Policy) string {
	arm := func(from string, where ...string) string {
		return fmt.Sprintf(`(select c.* from %s
		where %s
		order by %s limit @count)`, from, eligible(p, where...), p.OrderBy)
	}
	return usableCandidates + `, first as materialized (
	select * from (
	` + arm("scheduler_go.candidates c", "not c.parked", unchangedCandidate) + `
	union all
	` + arm("scheduler_go.candidates c", "c.parked", unchangedCandidate) + `
	union all
	` + arm("pending join scheduler_go.candidates_now c on c.url = pending.url") + `
	) c order by ` + p.OrderBy + ` limit @count
), selected as materialized (
	select ` + selectedColumns + `, c.queue_position as next_visit_queue_position
	from first c join listed_origins lo
	  on lo.lister_id = c.lister_id and lo.url = c.url and lo.visit_type = c.visit_type
	order by ` + p.OrderBy + `
)`
}

// groupedFromCandidates does what selectedFromCandidates does, for each group along its
// listers' part of the policy's index.
func groupedFromCandidates(p *model.Policy) string {
	return usableCandidates + `, ` + wanted + `, first as materialized (
	select * from (
		select c.*, row_number() over (partition by c.place order by ` + p.OrderBy + `) as turn
		from (
			select w.place, w.count, c.* from wanted w cross join lateral (
				select c.* from scheduler_go.candidates c
				where ` + eligible(p) + ` and c.lister_id = w.lister_id and not c.parked and ` + unchangedCandidate + `
				order by ` + p.OrderBy + ` limit w.count) c
			union all
			select w.place, w.count, c.* from scheduler_go.candidates c join wanted w on w.lister_id = c.lister_id
			where ` + eligible(p) + ` and c.parked and ` + unchangedCandidate + `
			union all
			select w.place, w.count, c.* from pending join scheduler_go.candidates_now c on c.url = pending.url
			join wanted w on w.lister_id = c.lister_id
			where ` + eligible(p) + `
		) c
	) c where turn <= count
), selected as materialized (
	select ` + selectedColumns + `, c.queue_position as next_visit_queue_position, c.place
	from first c join listed_origins lo
	  on lo.lister_id = c.lister_id and lo.url = c.url and lo.visit_type = c.visit_type
	order by c.place, c.turn
)`
}
