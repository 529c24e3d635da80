package sql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/scheduler"
)

// VisitGroup is a group of listers and how many of its origins are asked for.
type VisitGroup struct {
	Listers []uuid.UUID
	Count   int
}

// GrabbedVisit is an origin with the place of its group among those asked for.
type GrabbedVisit struct {
	Group  int
	Origin scheduler.ListedOrigin
}

// GrabGroupedVisits picks origins as GrabNextVisits does, of each group as many as
// are asked for, in the policy's order within the group, and marks them as
// scheduled. A lister belongs to one group at most.
//
// With the default cooldowns and no other filter, and the indexes of
// Migrate for shares by lister, its cost depends on how many are asked for.
func (tx *Tx) GrabGroupedVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, groups []VisitGroup) ([]GrabbedVisit, error) {
	visits, err := tx.grabGrouped(ctx, f, now, groups)
	if err != nil {
		return nil, fmt.Errorf("grab visits of type %q by policy %q for %d groups: %w", f.VisitType, f.Policy, len(groups), err)
	}
	return visits, nil
}

func (tx *Tx) grabGrouped(ctx context.Context, f scheduler.VisitFilter, now time.Time, groups []VisitGroup) ([]GrabbedVisit, error) {
	q := &grabQuery{args: pgx.NamedArgs{"visit_type": f.VisitType, "now": now}}
	q.wants(groups)
	if err := tx.q.LockVisitType(ctx, f.VisitType); err != nil {
		return nil, err
	}
	q.mark(f.Policy)
	if fromCandidates(f) {
		if err := tx.drainPending(ctx, f.VisitType); err != nil {
			return nil, err
		}
		q.selected = groupedFromCandidates(f.Policy)
		q.args["max_pending"] = maxPendingChanges
		if _, err := tx.tx.Exec(ctx, pinPlans); err != nil {
			return nil, err
		}
		visits, usable, err := tx.collectGrouped(ctx, q)
		if err != nil {
			return nil, err
		}
		if _, err := tx.tx.Exec(ctx, unpinPlans); err != nil || usable {
			return visits, err
		}
	}
	if err := q.selectFromTables(ctx, tx, f, now); err != nil {
		return nil, err
	}
	q.selectGrouped()
	visits, _, err := tx.collectGrouped(ctx, q)
	return visits, err
}

// wanted is a CTE: the place of its group in what was asked for, and how many of
// it are asked for, by lister.
const wanted = `wanted as materialized (
	select * from unnest(@listers::uuid[], @places::integer[], @counts::integer[]) w (lister_id, place, count)
)`

func (q *grabQuery) wants(groups []VisitGroup) {
	var listers []uuid.UUID
	var places, counts []int32
	for i, g := range groups {
		for _, l := range g.Listers {
			listers = append(listers, l)
			places = append(places, int32(i))
			counts = append(counts, int32(g.Count))
		}
	}
	q.args["listers"], q.args["places"], q.args["counts"] = listers, places, counts
}

// groupedFromCandidates selects what selectedFromCandidates does, for each group:
// along its listers' part of the policy's index.
func groupedFromCandidates(policy scheduler.VisitPolicy) string {
	p := candidatePolicies[policy]
	eligible := "exists (select from usable) and c.visit_type = @visit_type and c.due < @now and " + p.where
	return usableCandidates + `, ` + wanted + `, first as materialized (
	select * from (
		select c.*, row_number() over (partition by c.place order by ` + p.orderBy + `) as turn
		from (
			select w.place, w.count, c.* from wanted w cross join lateral (
				select c.* from scheduler_go.candidates c
				where ` + eligible + ` and c.lister_id = w.lister_id and not c.parked and ` + unchangedCandidate + `
				order by ` + p.orderBy + ` limit w.count) c
			union all
			select w.place, w.count, c.* from scheduler_go.candidates c join wanted w on w.lister_id = c.lister_id
			where ` + eligible + ` and c.parked and ` + unchangedCandidate + `
			union all
			select w.place, w.count, c.* from pending join scheduler_go.candidates_now c on c.url = pending.url
			join wanted w on w.lister_id = c.lister_id
			where ` + eligible + `
		) c
	) c where turn <= count
), selected as materialized (
	select ` + listedOriginColumns + `, c.queue_position as next_visit_queue_position, c.place
	from first c join listed_origins lo
	  on lo.lister_id = c.lister_id and lo.url = c.url and lo.visit_type = c.visit_type
	order by c.place, c.turn
)`
}

// selectGrouped makes what selectFromTables selects that of each group.
func (q *grabQuery) selectGrouped() {
	q.selected = `usable as (select), ` + wanted + `, selected as materialized (
	select * from (
		select ` + listedOriginColumns + `, ovs.next_visit_queue_position, w.place, w.count,
		       row_number() over (partition by w.place order by ` + q.orderBy + `) as turn
		from ` + q.from + `
		join wanted w on w.lister_id = lo.lister_id
		left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
		where ` + strings.Join(q.where, "\n\t\t  and ") + `
	) lo where turn <= count
	order by place, turn
)`
}

// collectGrouped runs a grab and says whether what it reads could be used.
func (tx *Tx) collectGrouped(ctx context.Context, q *grabQuery) (visits []GrabbedVisit, usable bool, err error) {
	// Without origins there is one row all the same, which tells why.
	rows, err := tx.tx.Query(ctx, q.ctes()+`
select u.usable, lo.place, `+listedOriginColumns+`
from (select exists (select from usable) as usable) u left join selected lo on true`, q.args)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var v GrabbedVisit
		fields := append([]any{&v.Group}, listedOriginFields(&v.Origin)...)
		found := rows.RawValues()[1] != nil
		if !found {
			clear(fields)
		}
		if err := rows.Scan(append([]any{&usable}, fields...)...); err != nil {
			return nil, false, err
		}
		if found {
			visits = append(visits, v)
		}
	}
	return visits, usable, rows.Err()
}
