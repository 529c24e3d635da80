package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// ReadyTaskTypes lists the types with a ready task at now: without priority, or with any. Of the types in from, tasks with
// an earlier date don't count.
func (s Queries) ReadyTaskTypes(ctx context.Context, now time.Time, withPriority bool, from map[string]time.Time) ([]string, error) {
	p := queries.ReadyTaskTypesParams{Now: now, WithPriority: withPriority}
	for name, at := range from {
		p.Types, p.Since = append(p.Types, name), append(p.Since, at)
	}
	return s.q.ReadyTaskTypes(ctx, p)
}

// LateTasks is how late a task's row may be visible after its date: clocks differ, and transactions take time.
const LateTasks = 10 * time.Second

// TaskClaim selects the tasks of a claim and the queue of their messages.
type TaskClaim struct {
	Type         model.TaskType
	Queue        string
	WithPriority bool // tasks of any priority, highest first, instead of those without
	Now          time.Time
	From         time.Time // claim no tasks with an earlier date; zero: all

	// Ageing is the wait after which a task with priority counts as one priority higher. From then on it
	// precedes tasks of the next priority that become ready. 0 means never.
	Ageing time.Duration

	Tried  bool           // fill in Work.Tried, an input of lane selection
	By     model.ShareKey // the key of the task groups; "": all tasks are one group of any name
	Groups []TaskGroup    // to claim for
}

// TaskGroup is a group of tasks to claim.
type TaskGroup struct {
	Name  string
	Count int     // the most tasks to claim
	Cost  float64 // the expected cost of each, in seconds

	Priority uint8 // the priority of their messages
}

// Share returns the share of a message of the group.
func (g TaskGroup) Share() Share {
	return Share{Shared: true, Group: g.Name, Cost: g.Cost, Priority: g.Priority}
}

// ClaimTasks marks ready tasks as scheduled, up to Count of each group. Each gets a run without metadata,
// as the Python runner writes it. It claims the longest-waiting first; with priority, the highest priority
// first. Some tasks cannot be sent as they are (scheduler_go.odd_task), or PostgreSQL refuses to mark them.
// ClaimTasks sets these aside and claims others. It returns the number of tasks by group, and their
// messages without a queue. Messages of groups have their Share.
func (tx *Tx) ClaimTasks(ctx context.Context, c TaskClaim) (taken []int, work []Work, err error) {
	groups := slices.Clone(c.Groups)
	taken = make([]int, len(groups))
	for range bulk.MaxSetAsideRounds {
		odd, err := tx.claimTasks(ctx, c, groups, taken, &work)
		if err != nil {
			return nil, nil, fmt.Errorf("claim tasks of type %q: %w", c.Type.Type, err)
		}
		if odd == 0 {
			break
		}
	}
	return taken, work, nil
}

// claimTasks claims the rest of groups, and updates the rest and taken. Where PostgreSQL refuses the claim,
// it bisects the claim and sets aside the tasks that are refused alone. It returns the number of tasks set
// aside.
func (tx *Tx) claimTasks(ctx context.Context, c TaskClaim, groups []TaskGroup, taken []int, work *[]Work) (odd int, err error) {
	asked := slices.Clone(groups)
	all := 0
	for _, g := range asked {
		all += g.Count
	}
	// part returns the groups with the counts of positions first to end, of all positions in the order of
	// groups.
	part := func(first, end int) []TaskGroup {
		some, at := slices.Clone(asked), 0
		for i, g := range asked {
			some[i].Count = max(0, min(end, at+g.Count)-max(first, at))
			at += g.Count
		}
		return some
	}
	if err := tx.setPlans(ctx, c); err != nil { // not at a savepoint, whose end would undo it
		return 0, err
	}
	aside, err := bulk.BisectIn(ctx, tx.Tx, all, func(first, end int) (int64, error) {
		got, n, err := tx.claimTasksOnce(ctx, c, part(first, end), work)
		if err != nil {
			return 0, err // before the first row: PostgreSQL completes a statement that writes before it returns rows
		}
		odd += n
		total := 0
		for i, n := range got {
			taken[i] += n
			groups[i].Count -= n
			total += n
		}
		return int64(total), nil
	}, func(i int, reason *postgres.RefusedError) error {
		return tx.setNextTaskAside(ctx, c, part(i, i+1), reason)
	})
	return odd + aside, err
}

// setNextTaskAside sets aside the next task in the order of the claim.
func (tx *Tx) setNextTaskAside(ctx context.Context, c TaskClaim, groups []TaskGroup, reason *postgres.RefusedError) error {
	arguments := c.arguments(groups)
	arguments["reason"] = reason.Error()
	_, err := tx.Raw.Exec(ctx, c.ready()+`
insert into scheduler_go.set_aside_tasks (task, arguments, reason)
select t.id, md5(t.arguments::text), @reason from ready join task t on t.id = ready.id
on conflict do nothing`, arguments)
	return err
}

// claimTasksOnce runs the claim once and adds the messages to work. It returns the number of tasks by
// group, and the number set aside.
func (tx *Tx) claimTasksOnce(ctx context.Context, c TaskClaim, groups []TaskGroup, work *[]Work) (taken []int, odd int, err error) {
	rows, err := tx.Raw.Query(ctx, c.statement(), c.arguments(groups))
	if err != nil {
		return nil, 0, err
	}
	taken = make([]int, len(groups))
	var place *int // nil in the only row without a task
	w := Work{Home: c.Queue, TaskName: c.Type.BackendName, Urgent: c.WithPriority, Claimed: c.Now}
	var id uuid.NullUUID
	var text arena
	_, err = pgx.ForEachRow(rows, []any{&odd, &place, &id, nil, nil, &w.Tried}, func() error {
		if place == nil {
			return nil
		}
		taken[*place-1]++
		w.TaskID = id.UUID
		raw := rows.RawValues()
		w.Args, w.Kwargs = text.copy(raw[3]), text.copy(raw[4])
		if c.By != "" {
			w.Share = groups[*place-1].Share()
		}
		*work = append(*work, w)
		return nil
	})
	return taken, odd, err
}

// setPlans makes a connection plan claims once: planning would take a third of a small one. Claims that divide a type's
// tasks, or order them by priority, are planned for their values each time. A plan for any values would read all tasks that
// ever had a priority.
func (tx *Tx) setPlans(ctx context.Context, c TaskClaim) error {
	settings := postgres.UnpinPlans + "; set local plan_cache_mode = force_custom_plan"
	if !c.WithPriority && (c.By == "" || c.By == model.ShareByTaskType) {
		settings = postgres.PinPlans
	}
	if settings == tx.plans {
		return nil
	}
	_, err := tx.Raw.Exec(ctx, settings)
	if err == nil {
		tx.plans = settings
	}
	return err
}

// arena copies texts into blocks of growing size: one allocation for many texts, and a small one for few.
type arena []byte

func (a *arena) copy(text []byte) []byte {
	if cap(*a)-len(*a) < len(text) {
		*a = make([]byte, 0, max(min(2*cap(*a), 64<<10), 512, len(text)))
	}
	from := len(*a)
	*a = append(*a, text...)
	return (*a)[from:len(*a):len(*a)]
}

// AgeingSeconds returns the ageing for scheduler_go.turn. Without ageing it is longer than any wait, which
// keeps the strict order of priorities.
func AgeingSeconds(ageing time.Duration) float64 {
	if ageing == 0 {
		const never = 1e11 // 3,000 years
		return never
	}
	return ageing.Seconds()
}

// order returns the SQL order of the claim.
func (c TaskClaim) order() string {
	if c.WithPriority {
		return "scheduler_go.turn(priority, next_run, @ageing)"
	}
	return "next_run"
}

// ready returns a statement's first CTEs: wanted has the groups, ready has the locked tasks to claim. It is
// made of fixed parts.
func (c TaskClaim) ready() string {
	// Rows are compared so that only the index on type and date helps, as in ReadyTaskTypes.
	ready, order := "(type, next_run) >= (@type, @from) and (type, next_run) <= (@type, @now)", "type, next_run"
	if c.By != "" && c.By != model.ShareByTaskType { // for ShareByTaskType the type is the group
		ready, order = "type = @type and next_run >= @from and next_run <= @now and "+migrate.TaskGroup(c.By)+" = w.name", "next_run"
	}
	if c.WithPriority {
		ready, order = ready+" and priority is not null", c.order()
	} else {
		ready += " and priority is null"
	}
	return `
with wanted as (
	select * from unnest(@names::text[], @counts::integer[]) with ordinality w (name, count, place)
), ready as (
	select t.id, t.odd, w.* from wanted w cross join lateral (
		select id, scheduler_go.odd_task(arguments) as odd from task
		where ` + ready + ` and status = 'next_run_not_scheduled'
		  and (select true from scheduler_go.set_aside_tasks s where s.task = task.id) is null
		order by ` + order + `
		limit w.count
		for update skip locked
	) t
)`
}

// statement returns the claim's SQL, made of fixed parts.
func (c TaskClaim) statement() string {
	order := c.order()
	return c.ready() + `, aside as (
	insert into scheduler_go.set_aside_tasks (task, arguments, reason)
	select id, (select md5(arguments::text) from task where task.id = ready.id), odd from ready where odd is not null
	on conflict do nothing
	returning task
), counted as (
	select count(*) as odd from aside
), claimed as (
	update task set status = 'next_run_scheduled'
	from ready where task.id = ready.id and ready.odd is null
	returning task.id, task.next_run, task.priority, task.arguments, ready.place, gen_random_uuid() as backend_id
), runs as (
	insert into task_run (task, backend_id, scheduled, status)
	select id, backend_id::text, @now, 'scheduled' from claimed order by ` + order + `
)
select odd, place, backend_id, coalesce(arguments -> 'args', '[]')::text::json, coalesce(arguments -> 'kwargs', '{}')::text::json,
	case when @tried then coalesce((select r.status in ('failed', 'permfailed', 'lost') from task_run r where r.task = claimed.id order by r.scheduled desc limit 1), false) else false end
from counted left join claimed on true order by ` + order
}

func (c TaskClaim) arguments(groups []TaskGroup) pgx.NamedArgs {
	names, counts := make([]string, len(groups)), make([]int32, len(groups))
	for i, g := range groups {
		names[i], counts[i] = g.Name, int32(g.Count)
	}
	from := pgtype.Timestamptz{Time: c.From, Valid: true}
	if c.From.IsZero() {
		from.InfinityModifier = pgtype.NegativeInfinity
	}
	return pgx.NamedArgs{"type": c.Type.Type, "now": c.Now, "from": from, "names": names, "counts": counts, "ageing": AgeingSeconds(c.Ageing), "tried": c.Tried}
}

// ReadyTaskGroups lists the groups with a ready task of c.Type without priority at c.Now.
func (tx *Tx) ReadyTaskGroups(ctx context.Context, c TaskClaim, by model.ShareKey) ([]string, error) {
	group := migrate.TaskGroup(by)
	const waiting = "type = @type and status = 'next_run_not_scheduled' and priority is null"
	names, err := stmt.Column[string](ctx, tx.Raw, `
with recursive groups as (
	(select `+group+` as name from task where `+waiting+` order by 1 limit 1)
	union all
	select (select `+group+` from task where `+waiting+` and `+group+` > groups.name order by 1 limit 1)
	from groups where name is not null
)
select name from groups
where name is not null and exists (select from task where `+waiting+` and `+group+` = name and next_run <= @now)`,
		pgx.NamedArgs{"type": c.Type.Type, "now": c.Now})
	return names, stmt.Failed(err, "list the groups of ready tasks of type %q", c.Type.Type)
}

// CountReadyTasks counts a group's ready tasks that are not set aside, up to most.
func (tx *Tx) CountReadyTasks(ctx context.Context, c TaskClaim, by model.ShareKey, group string, most int) (n int, err error) {
	inGroup := "true"
	if by != model.ShareByTaskType {
		inGroup = migrate.TaskGroup(by) + " = @group"
	}
	err = tx.Raw.QueryRow(ctx, `select count(*) from (
	select from task
	where type = @type and status = 'next_run_not_scheduled' and priority is null and next_run <= @now and `+inGroup+`
	  and (select true from scheduler_go.set_aside_tasks s where s.task = task.id) is null
	limit @bound) ready`,
		pgx.NamedArgs{"type": c.Type.Type, "now": c.Now, "group": group, "bound": most}).Scan(&n)
	return n, err
}
