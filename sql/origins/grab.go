package origins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// GrabNextVisits picks up to count origins to visit at now, in the order of the filter's policy. Unless
// dryRun is set, it marks them as scheduled.
//
// It has the conditions, order and side effects of the Python scheduler's grab_next_visits. last_scheduled
// never decreases; policies by visit target move the visit type's queue position forward. An origin of
// several listers can occur once for each. Grabs of one visit type wait for each other, so they never
// return the same origin twice. A grab leaves out an origin that cannot be sent as it is
// (scheduler_go.odd_origin) or that PostgreSQL refuses to mark. Unless dryRun is set, it sets that origin
// aside.
//
// Its cost depends on count, not on the number of origins (see candidates.go). A grab of disabled origins
// or of an inexact sample reads the Python scheduler's tables, as the Python scheduler does. So does a grab
// with a filter that too many of the next origins don't meet. The result is the same.
func (tx *Tx) GrabNextVisits(ctx context.Context, f model.VisitFilter, now time.Time, count int, dryRun bool) ([]model.ListedOrigin, error) {
	visits, err := tx.Grabs(now).next(ctx, f, count, dryRun)
	return stmt.List(visits, err, func(v GrabbedVisit) model.ListedOrigin { return v.Origin })
}

// Grabs are the grabs of one claim for several policies and groups, in its transaction. They share the
// limits of hosters.
type Grabs struct {
	tx   *Tx
	now  time.Time
	room *hosterRoom // nil until the first grab, or without limits of hosters

	refusing map[string]refusals.State // nil until they are read
}

// Grabs begins the grabs of a claim at the moment now.
func (tx *Tx) Grabs(now time.Time) *Grabs { return &Grabs{tx: tx, now: now} }

// Next picks like GrabNextVisits, and marks the origins as scheduled.
func (g *Grabs) Next(ctx context.Context, f model.VisitFilter, count int) ([]GrabbedVisit, error) {
	return g.next(ctx, f, count, false)
}

func (g *Grabs) next(ctx context.Context, f model.VisitFilter, count int, dryRun bool) ([]GrabbedVisit, error) {
	visits, err := g.grab(ctx, &grabQuery{groups: []VisitGroup{{Count: count}}, args: pgx.NamedArgs{}}, f, dryRun)
	return visits, stmt.Failed(err, "grab visits of type %q by policy %q", f.VisitType, f.Policy)
}

// AnyVisit reports whether a grab would return an origin. It reads candidates only, never the Python
// scheduler's tables. known is false while candidates can't be used.
func (tx *Tx) AnyVisit(ctx context.Context, f model.VisitFilter, now time.Time) (found, known bool, err error) {
	if !KnownToCandidates(f) {
		return false, false, nil
	}
	q := &grabQuery{groups: []VisitGroup{{Count: 1}}, args: pgx.NamedArgs{"visit_type": f.VisitType, "now": now}}
	visits, known, err := tx.grabCandidates(ctx, q, f, now, true)
	return len(visits) > 0, known, stmt.Failed(err, "find visits of type %q by policy %q", f.VisitType, f.Policy)
}

// VisitGroup is a group of listers and the number of origins to grab.
type VisitGroup struct {
	Listers []uuid.UUID
	Count   int
}

// GrabbedVisit is an origin, with the index of its group.
type GrabbedVisit struct {
	Group   int
	Origin  model.ListedOrigin
	Hosters []string // those that count the visit; nil if no hoster has a limit now
	Updated float64  // latest update of all listers, in seconds since 1970; -infinity: none is known; 0: not read

	at *string // place (ctid) of its candidate, which a mark may move; nil: not known, or left to a drain
}

// Grouped picks, for each group, up to its Count of origins in the policy's order, and marks them as
// scheduled. A lister belongs to at most one group.
//
// With the indexes that Migrate creates for shares by lister, its cost depends on the counts. It never
// reads a sample: a group outside the sample would seem to have no origins.
func (g *Grabs) Grouped(ctx context.Context, f model.VisitFilter, groups []VisitGroup) ([]GrabbedVisit, error) {
	groups, err := g.tx.filteredGroups(ctx, f, groups)
	if err != nil {
		return nil, err
	}
	f.TableSample = 0
	q := &grabQuery{grouped: true, groups: groups, args: pgx.NamedArgs{}}
	visits, err := g.grab(ctx, q, f, false)
	return visits, stmt.Failed(err, "grab visits of type %q by policy %q for %d groups", f.VisitType, f.Policy, len(groups))
}

// filteredGroups returns the groups without listers that don't meet the filter.
func (tx *Tx) filteredGroups(ctx context.Context, f model.VisitFilter, groups []VisitGroup) ([]VisitGroup, error) {
	among, filtered, err := tx.filteredListers(ctx, f)
	if err != nil || !filtered {
		return groups, err
	}
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Listers = slices.DeleteFunc(slices.Clone(groups[i].Listers), func(l uuid.UUID) bool { return !slices.Contains(among, l) })
	}
	return groups, nil
}

// CountGroupedVisits counts the origins that Grouped would return for each group without limits of hosters.
// It reads candidates only: while they can't be used, the counts are 0.
func (tx *Tx) CountGroupedVisits(ctx context.Context, f model.VisitFilter, now time.Time, groups []VisitGroup) ([]int, error) {
	counts := make([]int, len(groups))
	f.TableSample = 0
	groups, err := tx.filteredGroups(ctx, f, groups)
	if err != nil || !KnownToCandidates(f) {
		return counts, err
	}
	q := &grabQuery{grouped: true, groups: groups, args: pgx.NamedArgs{}}
	var place, n int
	err = tx.askCandidates(ctx, q, f, now, "select c.place, count(*) from first c group by c.place", []any{&place, &n}, func() error { counts[place] = n; return nil })
	return counts, stmt.Failed(err, "count visits of type %q by policy %q for %d groups", f.VisitType, f.Policy, len(groups))
}

// VisitPlace is an origin's place among the next ones of a policy.
type VisitPlace struct {
	Known    bool // false while candidates can't be used: see grabCandidates
	Place    int  // from 1; 0: not among those searched
	Searched int  // number of origins searched
}

// changesOfPlace bounds the pending changes that PlaceOfVisit reads per searched origin.
const changesOfPlace = 5

// PlaceOfVisit returns an origin's place among the next limit ones of a policy. It reads only candidates
// and the visit type's pending changes. For a filter without an index, it reads as many candidates as a
// grab.
func (tx *Tx) PlaceOfVisit(ctx context.Context, f model.VisitFilter, now time.Time, o model.ListedOrigin, limit int) (p VisitPlace, err error) {
	if !KnownToCandidates(f) {
		return p, nil
	}
	q := &grabQuery{groups: []VisitGroup{{Count: limit}}, maxPending: min(MaxPendingChanges, changesOfPlace*limit), args: pgx.NamedArgs{"url": o.URL, "lister": o.ListerID}}
	err = tx.askCandidates(ctx, q, f, now, `select exists (select from usable), count(*),
		coalesce(max(c.turn) filter (where c.url = @url and c.lister_id = @lister), 0) from first c`, []any{&p.Known, &p.Searched, &p.Place}, func() error { return nil })
	return p, stmt.Failed(err, "find the place of %q by policy %q", o.URL, f.Policy)
}

// askCandidates runs a statement on first, the CTE of what a grab would select from candidates. It scans
// each row into fields and calls do.
func (tx *Tx) askCandidates(ctx context.Context, q *grabQuery, f model.VisitFilter, now time.Time, statement string, fields []any, do func() error) error {
	q.pinned, q.args["visit_type"], q.args["now"] = true, f.VisitType, now
	if err := q.selectFromCandidates(ctx, tx, f, now); err != nil {
		return err
	}
	return tx.withSettings(ctx, q, func() error {
		rows, err := tx.Raw.Query(ctx, "with "+q.selected+" "+statement, q.args)
		if err == nil {
			_, err = pgx.ForEachRow(rows, fields, do)
		}
		return err
	})
}

func (g *Grabs) grab(ctx context.Context, q *grabQuery, f model.VisitFilter, dryRun bool) ([]GrabbedVisit, error) {
	tx, now := g.tx, g.now
	q.args["visit_type"], q.args["now"], q.args["moving"] = f.VisitType, now, false
	if !dryRun {
		if limited, err := g.limited(ctx); err != nil {
			return nil, err
		} else if limited {
			return g.grabWithinLimits(ctx, q, f)
		}
		if err := tx.q.LockVisitType(ctx, f.VisitType); err != nil {
			return nil, err
		}
		moving, err := tx.q.TryLockCandidates(ctx)
		if err != nil {
			return nil, err
		}
		q.args["moving"] = moving
		q.effects = append([]string{setAside}, marks(f, moving)...)
	}
	migrated := true
	if dryRun { // a dry run also works on a database that is not migrated
		if err := tx.Raw.QueryRow(ctx, `select exists (select from pg_attribute
			where attrelid = to_regclass('scheduler_go.candidate_build') and attname = 'by_cooldown')`).Scan(&migrated); err != nil {
			return nil, err
		}
	}
	return tx.selectVisits(ctx, q, f, now, dryRun, migrated)
}

// marks returns the effects by which a grab marks its origins. Without the lock of candidates (moving) none writes
// candidates: the table's lock would wait for an index that a build creates.
func marks(f model.VisitFilter, moving bool) []string {
	effects := []string{markScheduled, noteMarked}
	if moving {
		effects = append(effects, moveMarked)
	}
	if p := f.Rule(); p != nil && p.ByTarget {
		effects = append(effects, moveQueuePosition)
	}
	return effects
}

// selectVisits runs a grab on candidates, or on the tables if candidates can't be used.
func (tx *Tx) selectVisits(ctx context.Context, q *grabQuery, f model.VisitFilter, now time.Time, dryRun, migrated bool) ([]GrabbedVisit, error) {
	if migrated && KnownToCandidates(f) {
		visits, usable, err := tx.grabCandidates(ctx, q, f, now, dryRun)
		if !usable && err == nil && q.byLister && !q.eachLister {
			q.eachLister = true
			visits, usable, err = tx.grabCandidates(ctx, q, f, now, dryRun)
		}
		if err != nil || usable {
			return visits, err
		}
	}
	q.ask()
	if err := q.selectFromTables(ctx, tx, f, now, migrated); err != nil {
		return nil, err
	}
	visits, _, err := tx.runGrab(ctx, q)
	return visits, err
}

// grabQuery builds the statement of a grab. All values are arguments: no SQL is made from input.
type grabQuery struct {
	groups  []VisitGroup // the wanted groups; without grouped, one group of all listers
	grouped bool
	room    *hosterRoom // remaining capacity of hosters; nil: no limits

	// byLister reports that a walk per open lister could leave out closed ones. eachLister requests these
	// walks.
	byLister, eachLister bool

	maxPending int // bound of the pending changes that it reads; 0: MaxPendingChanges

	pinned   bool     // the plan must use indexes
	selected string   // CTEs: usable has a row if the others can be used; selected has the rows to return; found has them in order
	effects  []string // data-modifying CTEs after selected
	args     pgx.NamedArgs

	// These are parts of selected for the Python scheduler's tables.
	from    string
	where   []string
	orderBy string
}

// ask sets the arguments for the wanted counts.
func (q *grabQuery) ask() {
	if q.grouped {
		q.want(q.groups)
	} else {
		q.args["count"] = q.groups[0].Count
	}
}

// want sets the arguments of the CTE wanted to the groups, without listers of closed instances.
func (q *grabQuery) want(groups []VisitGroup) {
	var listers []uuid.UUID
	var places, counts []int32
	for i, g := range groups {
		for _, l := range g.Listers {
			if !q.room.isClosed(l) {
				listers = append(listers, l)
				places = append(places, int32(i))
				counts = append(counts, int32(g.Count))
			}
		}
	}
	q.args["listers"], q.args["places"], q.args["counts"] = listers, places, counts
}

// setAside sets aside origins that cannot be sent. If there are any, the statement has no other effect, and
// the grab runs again for others.
const setAside = `odd as (
	insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason)
	select distinct lister_id, url, visit_type, scheduler_go.origin_content(extra_loader_arguments, first_seen, last_seen, last_update), odd
	from selected where odd is not null
	on conflict do nothing
)`

const noneSetAside = "not exists (select from selected where odd is not null)"

const markScheduled = `marked as (
	insert into origin_visit_stats as ovs (url, visit_type, last_scheduled)
	select distinct url, visit_type, @now::timestamptz from selected where ` + noneSetAside + ` order by url, visit_type -- locks in order
	on conflict (url, visit_type) do update
	set last_scheduled = greatest(ovs.last_scheduled, excluded.last_scheduled)
	returning url, last_scheduled = @now::timestamptz
		and scheduler_go.due_at(last_scheduled, last_visit, last_visit_status) = @now::timestamptz + interval '168 hours' as cooling
), noted_only as materialized (
	select url from found where at is null
	union all
	select url from marked where cooling is not true
)`

// moveMarked moves the candidates of what markScheduled marks, so that no drain reads these origins again. It needs
// the lock of candidates (@moving): their places change only under it. noted_only has the origins that are left to a drain:
// those of several listers, those with pending changes, and those that another cooldown than the usual one holds back.
const moveMarked = `parked_now as (
	update scheduler_go.candidates
	set last_scheduled = @now::timestamptz, due = @now::timestamptz + interval '168 hours', parked = @now::timestamptz + interval '168 hours' >= now()
	where ctid = any(array(select at from found where ` + noneSetAside + ` and url not in (select url from noted_only) order by at))
)`

// noteMarked records the changes of markScheduled that moveMarked leaves, in place of the triggers, which runGrab turns
// off for the statement.
const noteMarked = `noted as (
	insert into scheduler_go.candidate_changes (visit_type, url, scheduled, listed)
	select distinct visit_type, url, @now::timestamptz, false from selected
	where ` + noneSetAside + ` and (not @moving::boolean or url in (select url from noted_only))
)`

const moveQueuePosition = `moved as (
	insert into visit_scheduler_queue_position as p (visit_type, position)
	select visit_type, coalesce(max(next_visit_queue_position), 0) from selected where ` + noneSetAside + ` group by visit_type
	on conflict (visit_type) do update set position = greatest(p.position, excluded.position)
)`

// runGrab runs a grab, and repeats it while it sets origins aside. It returns the selected visits. usable
// is whether the CTEs could be used; if not, nothing is selected or marked.
func (tx *Tx) runGrab(ctx context.Context, q *grabQuery) (visits []GrabbedVisit, usable bool, err error) {
	for range bulk.MaxSetAsideRounds {
		var odd int
		err = postgres.AsRefused(tx.withSettings(ctx, q, func() (err error) {
			visits, odd, usable, err = tx.runGrabOnce(ctx, q)
			return err
		}))
		if _, ok := errors.AsType[*postgres.RefusedError](err); ok && len(q.effects) > 0 {
			err = tx.withSettings(ctx, q, func() (err error) {
				visits, usable, err = tx.runGrabApart(ctx, q)
				return err
			})
			break
		}
		if err != nil || odd == 0 || len(q.effects) == 0 {
			break
		}
		visits = nil
	}
	return visits, usable, err
}

// withSettings runs do with the settings of a grab. A grab that marks runs in a savepoint: after an error,
// the transaction continues as before the grab.
func (tx *Tx) withSettings(ctx context.Context, q *grabQuery, do func() error) error {
	before, after := "", ""
	if len(q.effects) > 0 {
		before = "savepoint grab; set local scheduler_go.noted = on; "
		after = "set local scheduler_go.noted = off; release savepoint grab; "
	}
	if q.pinned {
		before, after = before+postgres.PinPlans, after+postgres.UnpinPlans
	}
	if before == "" {
		return do()
	}
	if _, err := tx.Raw.Exec(ctx, before); err != nil {
		return err
	}
	if err := do(); err != nil {
		if len(q.effects) > 0 {
			_, undo := tx.Raw.Exec(ctx, "rollback to savepoint grab; release savepoint grab")
			err = errors.Join(err, undo)
		}
		return err
	}
	_, err := tx.Raw.Exec(ctx, after)
	return err
}

// runGrabApart runs a grab that PostgreSQL refuses. It marks the origins in parts, and sets aside and
// leaves out those that are refused alone.
func (tx *Tx) runGrabApart(ctx context.Context, q *grabQuery) (visits []GrabbedVisit, usable bool, err error) {
	selection := *q
	selection.effects = nil
	if visits, _, usable, err = tx.runGrabOnce(ctx, &selection); err != nil {
		return nil, usable, err
	}
	visits, err = tx.mark(ctx, q, visits)
	return visits, usable, err
}

// mark applies the effects of a grab to visits. It sets aside and leaves out those that PostgreSQL refuses
// to mark alone.
func (tx *Tx) mark(ctx context.Context, q *grabQuery, visits []GrabbedVisit) ([]GrabbedVisit, error) {
	effects := slices.DeleteFunc(slices.Clone(q.effects), func(effect string) bool { return effect == setAside })
	if len(visits) == 0 || len(effects) == 0 {
		return visits, nil
	}
	at := make(map[string]*string, len(visits)) // by URL; an origin with several visits has no place
	for _, v := range visits {
		at[v.Origin.URL] = v.at
	}
	urls := slices.Sorted(maps.Keys(at)) // locks in order
	places := make([]*string, len(urls))
	for i, url := range urls {
		places[i] = at[url]
	}
	aside := make(map[string]bool)
	mark := `with selected as (
	select u.url, @visit_type::text as visit_type, ovs.next_visit_queue_position, null::text as odd, u.at::tid as at
	from unnest(@urls::text[], @candidate_places::text[]) u (url, at) left join origin_visit_stats ovs on ovs.url = u.url and ovs.visit_type = @visit_type
), found as (table selected), ` + strings.Join(effects, ", ") + " select"
	_, err := bulk.BisectIn(ctx, tx.Tx, len(urls), func(first, end int) (int64, error) {
		arguments := maps.Clone(q.args)
		arguments["urls"], arguments["candidate_places"] = urls[first:end], places[first:end]
		_, err := tx.Raw.Exec(ctx, mark, arguments)
		return int64(end - first), err
	}, func(i int, reason *postgres.RefusedError) error {
		aside[urls[i]] = true
		return tx.q.SetOriginAside(ctx, queries.SetOriginAsideParams{Reason: reason.Error(), URL: urls[i], VisitType: q.args["visit_type"].(string)})
	})
	return slices.DeleteFunc(visits, func(v GrabbedVisit) bool { return aside[v.Origin.URL] }), err
}

func (tx *Tx) runGrabOnce(ctx context.Context, q *grabQuery) (visits []GrabbedVisit, odd int, usable bool, err error) {
	at := "null" // only a later mark needs it
	if q.room != nil {
		at = "lo.at"
	}
	// Without origins the statement still returns one row, for usable and odd.
	rows, err := tx.Query(ctx, "with "+strings.Join(append([]string{q.selected}, q.effects...), ", ")+`
select u.usable, u.odd, coalesce(lo.url, ''), lo.updated, lo.lister_id, `+at+`::text, lo.place, `+originColumns+`
from (select exists (select from usable) as usable, (select count(*) from selected where odd is not null) as odd) u
left join found lo on lo.odd is null`, q.args)
	if err != nil {
		return nil, 0, false, err
	}
	defer rows.Close()
	var v GrabbedVisit // overwritten by each row
	var updated pgtype.Float8
	latestUpdates := make(map[string]float64) // by URL
	ofSeveral := make(map[string]bool)        // URLs with rows of other listers
	o := &v.Origin
	fields := []any{&usable, &odd, &o.URL, &updated, &o.ListerID, &v.at, &v.Group, &o.VisitType, &o.ExtraLoaderArguments,
		&o.Enabled, &o.FirstSeen, &o.LastSeen, &o.LastUpdate, &o.IsFork, &o.ForkedFromURL}
	const lister = 4
	updateAlone := slices.Concat(fields[:lister], make([]any, len(fields)-lister)) // the other columns are not scanned
	for rows.Next() {
		if rows.RawValues()[lister] == nil {
			err = rows.Scan(updateAlone...)
			ofSeveral[o.URL] = true
		} else if err = rows.Scan(fields...); err == nil {
			visits = append(visits, v)
		}
		if err != nil {
			return nil, 0, false, err
		}
		if latest, known := latestUpdates[o.URL]; updated.Valid && (!known || latest < updated.Float64) {
			latestUpdates[o.URL] = updated.Float64
		}
	}
	for i := range visits {
		visits[i].Updated = latestUpdates[visits[i].Origin.URL]
		if ofSeveral[visits[i].Origin.URL] {
			visits[i].at = nil
		}
	}
	return visits, odd, usable, rows.Err()
}

// originColumns are in the order of the fields in runGrabOnce, after the group.
const originColumns = `lo.visit_type, lo.extra_loader_arguments,
	lo.enabled, lo.first_seen, lo.last_seen, lo.last_update, lo.is_fork, lo.forked_from_url`

// whyNotSent is the reason why a row of listed_origins cannot be sent, or null.
const whyNotSent = "scheduler_go.odd_origin(lo.extra_loader_arguments, lo.first_seen, lo.last_seen, lo.last_update)"

// wanted is a CTE with the group's index and count by lister.
const wanted = `wanted as materialized (
	select * from unnest(@listers::uuid[], @places::integer[], @counts::integer[]) w (lister_id, place, count)
)`

// originFacts joins a row c, with the columns of candidates that policies use, to each row lo of
// listed_origins. Only policies that use the lag or the moment need our schema, whose functions compute
// them.
func originFacts(p *model.Policy) string {
	lag, moment := "null::interval", "null::timestamptz"
	uses := func(column string) bool {
		return strings.Contains(strings.Join(append(p.SQL(), p.OrderBy), " "), column)
	}
	if uses("c.moment") {
		moment = "scheduler_go.moment_of(lo.visit_type, lo.url, lo.lister_id, lo.first_seen, lo.last_update, ovs.last_snapshot is not null, ovs.last_successful)"
	}
	if uses("c.lag") {
		lag = "case when ovs.last_snapshot is not null then scheduler_go.lag_of(lo.last_update, ovs.last_successful) end"
	}
	return `left join origin_visit_stats ovs on ovs.url = lo.url and ovs.visit_type = lo.visit_type
	cross join lateral (select lo.last_update, lo.first_seen, lo.is_fork is true as fork, ovs.last_scheduled, ovs.next_visit_queue_position as queue_position,
		ovs.last_snapshot is not null as loaded, coalesce(ovs.last_visit_status = 'successful', false) as successful,
		` + lag + ` as lag, ` + moment + ` as moment) c`
}

// notSetAside leaves out origins that are set aside. It is an anti-join: a look-up for each origin would
// cost more.
const notSetAside = `not exists (select from scheduler_go.set_aside_origins s
		where s.lister_id = lo.lister_id and s.url = lo.url and s.visit_type = lo.visit_type)`

// selectFromTables selects from the Python scheduler's tables by the filter. On a database without our
// migrations it includes origins that cannot be sent.
func (q *grabQuery) selectFromTables(ctx context.Context, tx *Tx, f model.VisitFilter, now time.Time, migrated bool) error {
	q.from = "listed_origins lo"
	q.where = []string{"lo.enabled = @enabled", "lo.visit_type = @visit_type"}
	odd := "null::text"
	if migrated {
		q.where, odd = append(q.where, notSetAside), whyNotSent
	}
	columns := "lo.url, null::double precision as updated, lo.lister_id, null::tid as at, " + originColumns + ", " + odd + " as odd"
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
	q.where = append(q.where, slices.Concat(q.openHosts("lo"), q.openListers("lo"))...)
	where := strings.Join(q.where, "\n\t  and ")
	if q.grouped {
		q.selected = `usable as (select), ` + wanted + `, selected as materialized (
	select * from (
		select ` + columns + `, ovs.next_visit_queue_position, w.place, w.count,
		       row_number() over (partition by w.place order by ` + q.orderBy + `) as turn
		from ` + q.from + `
		join wanted w on w.lister_id = lo.lister_id
		` + originFacts(f.Rule()) + `
		where ` + where + `
	) lo where turn <= count
	order by place, turn
), found as (table selected)`
		return nil
	}
	q.selected = `usable as (select), selected as materialized (
	select ` + columns + `, ovs.next_visit_queue_position, 0 as place
	from ` + q.from + `
	` + originFacts(f.Rule()) + `
	where ` + where + `
	order by ` + q.orderBy + `
	limit @count
), found as (table selected)`
	return nil
}

// cooldowns leaves out origins that were scheduled or visited too recently. Cooldowns are in hours, not in
// days, so daylight saving has no effect.
func (q *grabQuery) cooldowns(c model.Cooldowns, now time.Time) {
	for _, rule := range []struct {
		name      string
		cooldown  time.Duration
		condition string
	}{
		{"absolute", c.Absolute, "(ovs.last_scheduled is null or ovs.last_scheduled < @absolute)"},
		// Scheduled without a result since, the origin waits in a queue. After the cooldown it counts as
		// lost.
		{"scheduled", c.Scheduled, "(ovs.last_scheduled is null or ovs.last_scheduled < greatest(@scheduled, ovs.last_visit))"},
		{"failed", c.Failed, "(ovs.last_visit_status is distinct from 'failed' or ovs.last_visit < @failed)"},
		{"not_found", c.NotFound, "(ovs.last_visit_status is distinct from 'not_found' or ovs.last_visit < @not_found)"},
	} {
		if rule.cooldown != 0 {
			q.where = append(q.where, rule.condition)
			q.args[rule.name] = now.Add(-rule.cooldown)
		}
	}
}

// policy adds the conditions and the order of the policy.
func (q *grabQuery) policy(ctx context.Context, tx *Tx, f model.VisitFilter) error {
	p := f.Rule()
	if p == nil {
		return fmt.Errorf("%w %q", model.ErrUnknownPolicy, f.Policy)
	}
	q.where = append(q.where, p.SQL()...)
	q.orderBy = p.OrderBy
	if f.Policy == model.Freshness {
		q.where = append(q.where, momentHasCome)
	}
	if f.WaitsForDate() {
		q.where = append(q.where, dateHasPassed)
	}
	if f.Policy != model.FirstVisitsAfterListing {
		return nil
	}
	condition, err := q.notScheduledSinceListing(ctx, tx, f)
	q.where = append(q.where, condition)
	return err
}

// momentHasCome is the condition of model.Freshness.
const momentHasCome = "c.moment <= @now"

// dateHasPassed is the condition of model.VisitFilter.WaitsForDate.
const dateHasPassed = "(c.lag > interval '0' or scheduler_go.update_ends(c.last_update) < @now)"

// sinceListing are the parts of the order of model.FirstVisitsAfterListing that it selects from.
var sinceListing = []string{"c.last_scheduled is null", "c.last_scheduled < @listed"}

// notScheduledSinceListing returns the condition of model.FirstVisitsAfterListing.
func (q *grabQuery) notScheduledSinceListing(ctx context.Context, tx *Tx, f model.VisitFilter) (string, error) {
	var lister model.Lister
	var err error
	switch {
	case f.ListerID.Valid:
		lister, err = tx.ListerByID(ctx, f.ListerID.UUID)
	case f.ListerName != "":
		lister, err = tx.Lister(ctx, f.ListerName, f.ListerInstanceName)
	default:
		err = fmt.Errorf("policy %q needs a lister: its id, or its name and instance name", f.Policy)
	}
	q.args["listed"] = lister.LastListingFinishedAt // null: only origins never scheduled
	return "(" + strings.Join(sinceListing, " or ") + ")", err
}

func (q *grabQuery) listers(f model.VisitFilter) {
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
