package sql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/scheduler"
)

// listedOriginColumns are the columns of listed_origins in the order of
// listedOriginFields.
const listedOriginColumns = `lo.lister_id, lo.url, lo.visit_type, lo.extra_loader_arguments,
	lo.enabled, lo.first_seen, lo.last_seen, lo.last_update, lo.is_fork, lo.forked_from_url`

// GrabNextVisits picks up to count origins to visit next at the moment now, in
// the order of the filter's policy, and unless dryRun marks them as scheduled.
//
// It is the peer's grab_next_visits: the same conditions, order and side effects
// (last_scheduled never moves back; policies by visit target move the visit type's
// queue position forward). An origin listed by several listers can come
// once for each. Grabs of one visit type wait for each other, so they never
// return the same origin twice.
//
// With the default cooldowns and no other filter, its cost depends on count, not
// on the number of origins (see candidates.go). Any other grab reads the peer's
// tables as the peer does; the answer is the same.
func (tx *Tx) GrabNextVisits(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int, dryRun bool) ([]scheduler.ListedOrigin, error) {
	origins, err := tx.grab(ctx, f, now, count, dryRun)
	if err != nil {
		return nil, fmt.Errorf("grab visits of type %q by policy %q: %w", f.VisitType, f.Policy, err)
	}
	return origins, nil
}

func (tx *Tx) grab(ctx context.Context, f scheduler.VisitFilter, now time.Time, count int, dryRun bool) ([]scheduler.ListedOrigin, error) {
	q := &grabQuery{args: pgx.NamedArgs{"visit_type": f.VisitType, "now": now, "count": count}}
	if !dryRun {
		if err := tx.q.LockVisitType(ctx, f.VisitType); err != nil {
			return nil, err
		}
		q.mark(f.Policy)
	}
	if fromCandidates(f) {
		origins, usable, err := tx.grabCandidates(ctx, q, f, dryRun)
		if err != nil || usable {
			return origins, err
		}
	}
	if err := q.selectFromTables(ctx, tx, f, now); err != nil {
		return nil, err
	}
	rows, err := tx.tx.Query(ctx, q.ctes()+"\nselect "+listedOriginColumns+" from selected lo", q.args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o scheduler.ListedOrigin, err error) {
		err = row.Scan(listedOriginFields(&o)...)
		return o, err
	})
}

func listedOriginFields(o *scheduler.ListedOrigin) []any {
	return []any{&o.ListerID, &o.URL, &o.VisitType, &o.ExtraLoaderArguments,
		&o.Enabled, &o.FirstSeen, &o.LastSeen, &o.LastUpdate, &o.IsFork, &o.ForkedFromURL}
}

// grabQuery is a grab being put together. Every value goes through args: no SQL
// is made from input.
type grabQuery struct {
	selected string   // CTEs, the last of which is "selected": what to return, in order
	effects  []string // data-modifying CTEs after it
	args     pgx.NamedArgs

	// Parts of "selected" where it reads the peer's tables.
	from    string
	where   []string
	orderBy string
}

// mark has what is selected marked as scheduled.
func (q *grabQuery) mark(policy scheduler.VisitPolicy) {
	q.effects = append(q.effects, markScheduled)
	if policy == scheduler.OriginsWithoutLastUpdate || policy == scheduler.OthersByVisitTarget {
		q.effects = append(q.effects, moveQueuePosition)
	}
}

// selectFromTables selects what the filter says from the peer's tables.
func (q *grabQuery) selectFromTables(ctx context.Context, tx *Tx, f scheduler.VisitFilter, now time.Time) error {
	q.from = "listed_origins lo"
	q.where = []string{"lo.enabled = @enabled", "lo.visit_type = @visit_type"}
	q.args["enabled"] = !f.Disabled
	if f.TableSample > 0 {
		q.from = "listed_origins lo tablesample system (@tablesample)"
		q.args["tablesample"] = f.TableSample
	}
	q.cooldowns(f.Cooldowns, now)
	if err := q.policy(ctx, tx, f); err != nil {
		return err
	}
	q.listers(f)
	q.selected = `selected as materialized (
	select ` + listedOriginColumns + `, ovs.next_visit_queue_position
	from ` + q.from + `
	left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
	where ` + strings.Join(q.where, "\n\t  and ") + `
	order by ` + q.orderBy + `
	limit @count
)`
	return nil
}

// cooldowns leaves out origins that were scheduled or visited too recently. They
// are measured in hours, not in days: no daylight saving.
func (q *grabQuery) cooldowns(c scheduler.Cooldowns, now time.Time) {
	add := func(name string, cooldown time.Duration, condition string) {
		if cooldown == 0 {
			return
		}
		q.where = append(q.where, condition)
		q.args[name] = now.Add(-cooldown)
	}
	add("absolute", c.Absolute,
		"(ovs.last_scheduled is null or ovs.last_scheduled < @absolute)")
	// Scheduled and no result since: it is waiting in a queue, unless that was so
	// long ago that it must have been lost.
	add("scheduled", c.Scheduled,
		"(ovs.last_scheduled is null or ovs.last_scheduled < greatest(@scheduled, ovs.last_visit))")
	add("failed", c.Failed,
		"(ovs.last_visit_status is distinct from 'failed' or ovs.last_visit < @failed)")
	add("not_found", c.NotFound,
		"(ovs.last_visit_status is distinct from 'not_found' or ovs.last_visit < @not_found)")
}

// policy adds what the policy selects and orders by.
func (q *grabQuery) policy(ctx context.Context, tx *Tx, f scheduler.VisitFilter) error {
	switch f.Policy {
	case scheduler.OldestScheduledFirst:
		q.orderBy = "ovs.last_scheduled nulls first"
	case scheduler.StopAfterSuccess:
		q.where = append(q.where, "ovs.last_visit_status is distinct from 'successful'")
		q.orderBy = "lo.last_update nulls last, lo.first_seen"
	case scheduler.NeverVisitedOldestUpdateFirst:
		q.where = append(q.where, "ovs.last_snapshot is null", "lo.last_update is not null")
		q.orderBy = "lo.last_update"
	case scheduler.AlreadyVisitedOrderByLag:
		q.where = append(q.where, "ovs.last_snapshot is not null", "lo.last_update > ovs.last_successful")
		q.orderBy = "scheduler_go.lag_behind(lo.last_update, ovs.last_successful) desc"
	case scheduler.OriginsWithoutLastUpdate:
		q.where = append(q.where, "lo.last_update is null")
		q.orderBy = "ovs.next_visit_queue_position nulls first, lo.first_seen"
	case scheduler.OthersByVisitTarget:
		q.where = append(q.where, "lo.last_update is not null", "ovs.last_snapshot is not null",
			"(lo.last_update > ovs.last_successful) is not true")
		q.orderBy = "ovs.next_visit_queue_position nulls first, lo.first_seen"
	case scheduler.FirstVisitsAfterListing:
		lister, err := tx.listerOf(ctx, f)
		if err != nil {
			return err
		}
		q.where = append(q.where, "(ovs.last_scheduled is null or ovs.last_scheduled < @listed)")
		q.args["listed"] = lister.LastListingFinishedAt // null: only those never scheduled
		q.orderBy = "ovs.last_scheduled nulls first"
	default:
		return fmt.Errorf("%w %q", scheduler.ErrUnknownPolicy, f.Policy)
	}
	return nil
}

// listerOf finds the lister that first_visits_after_listing is about.
func (tx *Tx) listerOf(ctx context.Context, f scheduler.VisitFilter) (scheduler.Lister, error) {
	if f.ListerID.Valid {
		return tx.ListerByID(ctx, f.ListerID.UUID)
	}
	if f.ListerName == "" {
		return scheduler.Lister{}, fmt.Errorf("policy %q needs a lister: its id, or its name and instance name", f.Policy)
	}
	return tx.Lister(ctx, f.ListerName, f.ListerInstanceName)
}

func (q *grabQuery) listers(f scheduler.VisitFilter) {
	if f.ListerID.Valid {
		q.where = append(q.where, "lo.lister_id = @lister_id")
		q.args["lister_id"] = f.ListerID.UUID
	}
	if f.ListerName == "" && f.ListerInstanceName == "" {
		return
	}
	q.from += " join listers l on l.id = lo.lister_id"
	if f.ListerName != "" {
		q.where = append(q.where, "l.name = @lister_name")
		q.args["lister_name"] = f.ListerName
	}
	if f.ListerInstanceName != "" {
		q.where = append(q.where, "l.instance_name = @lister_instance_name")
		q.args["lister_instance_name"] = f.ListerInstanceName
	}
}

const markScheduled = `marked as (
	insert into origin_visit_stats as ovs (url, visit_type, last_scheduled)
	select distinct url, visit_type, @now::timestamptz from selected order by url, visit_type -- locks in order
	on conflict (url, visit_type) do update
	set last_scheduled = greatest(ovs.last_scheduled, excluded.last_scheduled)
)`

const moveQueuePosition = `moved as (
	insert into visit_scheduler_queue_position as p (visit_type, position)
	select visit_type, coalesce(max(next_visit_queue_position), 0) from selected group by visit_type
	on conflict (visit_type) do update set position = greatest(p.position, excluded.position)
)`

func (q *grabQuery) ctes() string {
	return "with " + strings.Join(append([]string{q.selected}, q.effects...), ", ")
}
