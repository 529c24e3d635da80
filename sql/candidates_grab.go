package sql

import (
	"context"
	"fmt"

	"swh-scheduler/internal/scheduler"
)

// candidatePolicy is a visit policy in terms of candidates. Each has an index in
// candidates_indexes.sql.
type candidatePolicy struct{ where, orderBy string }

var candidatePolicies = map[scheduler.VisitPolicy]candidatePolicy{
	scheduler.OldestScheduledFirst:          {"true", "c.last_scheduled nulls first"},
	scheduler.StopAfterSuccess:              {"not c.successful", "c.last_update, c.first_seen"},
	scheduler.NeverVisitedOldestUpdateFirst: {"not c.loaded and c.last_update is not null", "c.last_update"},
	scheduler.AlreadyVisitedOrderByLag:      {"c.lag is not null", "c.lag desc"},
	scheduler.OriginsWithoutLastUpdate:      {"c.last_update is null", "c.queue_position nulls first, c.first_seen"},
	scheduler.OthersByVisitTarget: {"c.loaded and c.last_update is not null and c.lag is null",
		"c.queue_position nulls first, c.first_seen"},
}

// pinPlans keeps the planner to walks along indexes and look-ups by key, which is
// what candidates are for; it cannot know how few of the parked are due, or how
// many changes are pending. unpinPlans goes back to what the connection has.
const (
	pinPlans = `set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_sort = off;
		set local enable_hashjoin = off; set local enable_mergejoin = off; set local jit = off`
	unpinPlans = `set local enable_seqscan to default; set local enable_bitmapscan to default; set local enable_sort to default;
		set local enable_hashjoin to default; set local enable_mergejoin to default; set local jit to default`
)

// fromCandidates tells whether candidates can answer: they know the default
// cooldowns only, and nothing of listers.
func fromCandidates(f scheduler.VisitFilter) bool {
	_, known := candidatePolicies[f.Policy]
	return known && f.Cooldowns == scheduler.DefaultCooldowns && !f.Disabled && f.TableSample == 0 &&
		!f.ListerID.Valid && f.ListerName == "" && f.ListerInstanceName == ""
}

// usableCandidates are CTEs: one row, usable, if candidates can be used, and the
// origins with pending changes, whose candidates are not to be believed.
const usableCandidates = `usable as materialized (
	select from scheduler_go.candidate_build
	where phase = 'ready' and @max_pending::bigint >= (select count(*) from (
		select from scheduler_go.candidate_changes where visit_type = @visit_type limit @max_pending::bigint + 1) c)
), pending as materialized (
	select distinct url from (
		select url from scheduler_go.candidate_changes where visit_type = @visit_type limit @max_pending::bigint) c
)`

const unchangedCandidate = "c.url not in (select url from pending)"

// selectedFromCandidates selects what grabQuery.sql selects from the peer's
// tables: the first of the candidates in the policy's order, of the parked ones
// that are due, and of the origins with pending changes, read as they are now.
//
// It selects nothing while candidates cannot be used: they are not built, or too
// many changes are pending. All of it is seen in one snapshot.
func selectedFromCandidates(policy scheduler.VisitPolicy) string {
	p := candidatePolicies[policy]
	arm := func(from, where string) string {
		return fmt.Sprintf(`(select c.* from %s
		where exists (select from usable) and c.visit_type = @visit_type and c.due < @now and %s and %s
		order by %s limit @count)`, from, p.where, where, p.orderBy)
	}
	return usableCandidates + `, first as materialized (
	select * from (
	` + arm("scheduler_go.candidates c", "not c.parked and "+unchangedCandidate) + `
	union all
	` + arm("scheduler_go.candidates c", "c.parked and "+unchangedCandidate) + `
	union all
	` + arm("pending join scheduler_go.candidates_now c on c.url = pending.url", "true") + `
	) c order by ` + p.orderBy + ` limit @count
), selected as materialized (
	select ` + listedOriginColumns + `, c.queue_position as next_visit_queue_position
	from first c join listed_origins lo
	  on lo.lister_id = c.lister_id and lo.url = c.url and lo.visit_type = c.visit_type
	order by ` + p.orderBy + `
)`
}

// grabCandidates runs a grab on candidates, and says whether they could be used.
// If not, nothing was selected, and so nothing marked.
func (tx *Tx) grabCandidates(ctx context.Context, q *grabQuery, f scheduler.VisitFilter, dryRun bool) (origins []scheduler.ListedOrigin, usable bool, err error) {
	if !dryRun {
		if err := tx.drainPending(ctx, f.VisitType); err != nil {
			return nil, false, err
		}
	}
	q.selected = selectedFromCandidates(f.Policy)
	q.args["max_pending"] = maxPendingChanges
	if _, err := tx.tx.Exec(ctx, pinPlans); err != nil {
		return nil, false, err
	}
	// Without origins there is one row all the same, which tells why.
	rows, err := tx.tx.Query(ctx, q.ctes()+`
select u.usable, `+listedOriginColumns+`
from (select exists (select from usable) as usable) u left join selected lo on true`, q.args)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var o scheduler.ListedOrigin
		fields := listedOriginFields(&o)
		found := rows.RawValues()[1] != nil // each origin has a lister
		if !found {
			clear(fields)
		}
		if err := rows.Scan(append([]any{&usable}, fields...)...); err != nil {
			return nil, false, err
		}
		if found {
			origins = append(origins, o)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	if _, err := tx.tx.Exec(ctx, unpinPlans); err != nil {
		return nil, false, err
	}
	return origins, usable, nil
}
