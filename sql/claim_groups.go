package sql

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/scheduler"
)

// TaskGroup is a group of tasks: how many of it are asked for, and what each is
// expected to take, in seconds.
type TaskGroup struct {
	Name  string
	Count int
	Cost  float64
}

// taskGroup is the SQL expression of a task's group. There is an index on it; see
// shares_indexes.go. No input goes into it but a name of letters, digits and _.
func taskGroup(by scheduler.ShareKey) string {
	kwarg := func(name string) string { return "coalesce(arguments #>> '{kwargs," + name + "}', '')" }
	switch by {
	case scheduler.ShareByLister:
		return kwarg("lister_name")
	case scheduler.ShareByListerInstance:
		return "(" + kwarg("lister_name") + " || '/' || " + kwarg("lister_instance_name") + ")"
	}
	name, _ := by.Kwarg()
	return kwarg(name)
}

// ReadyTaskGroups lists the groups of a type's tasks without priority that have
// one to run at c.Now.
func (tx *Tx) ReadyTaskGroups(ctx context.Context, c TaskClaim, by scheduler.ShareKey) ([]string, error) {
	group := taskGroup(by)
	const waiting = "type = @type and status = 'next_run_not_scheduled' and priority is null"
	rows, err := tx.tx.Query(ctx, `
with recursive groups as (
	(select `+group+` as name from task where `+waiting+` order by 1 limit 1)
	union all
	select (select `+group+` from task where `+waiting+` and `+group+` > groups.name order by 1 limit 1)
	from groups where name is not null
)
select name from groups
where name is not null and exists (select from task where `+waiting+` and `+group+` = name and next_run <= @now)`,
		pgx.NamedArgs{"type": c.Type.Type, "now": c.Now})
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the groups of ready tasks of type %q: %w", c.Type.Type, err)
	}
	return names, nil
}

// ClaimGroupedTasks does what ClaimTasks does, for tasks without priority: of each
// group as many as are asked for, longest ready first, and notes them as underway.
// It returns how many it took of each group.
func (tx *Tx) ClaimGroupedTasks(ctx context.Context, c TaskClaim, by scheduler.ShareKey, groups []TaskGroup) ([]int, error) {
	names, counts, costs := make([]string, len(groups)), make([]int32, len(groups)), make([]float64, len(groups))
	for i, g := range groups {
		names[i], counts[i], costs[i] = g.Name, int32(g.Count), g.Cost
	}
	group := "true"
	if by != scheduler.ShareByTaskType { // there the type is the group
		group = taskGroup(by) + " = w.name"
	}
	rows, err := tx.tx.Query(ctx, `
with wanted as (
	select * from unnest(@names::text[], @counts::integer[], @costs::double precision[]) with ordinality w (name, count, cost, place)
), ready as (
	select t.id, w.name, w.cost, w.place from wanted w cross join lateral (
		select id from task
		where type = @type and status = 'next_run_not_scheduled' and next_run <= @now and priority is null
		  and `+group+`
		order by next_run
		limit w.count
		for update skip locked
	) t
), claimed as (
	update task set status = 'next_run_scheduled'
	from ready where task.id = ready.id
	returning task.id, task.next_run, task.arguments, ready.name, ready.cost, ready.place, gen_random_uuid() as backend_id
), runs as (
	insert into task_run (task, backend_id, scheduled, status)
	select id, backend_id::text, @now, 'scheduled' from claimed order by claimed.next_run
), messages as (
	insert into scheduler_go.outbox (queue, task_id, task_name, args, kwargs)
	select @queue, backend_id, @task_name,
	       coalesce(arguments -> 'args', '[]')::text::json, coalesce(arguments -> 'kwargs', '{}')::text::json
	from claimed order by claimed.next_run
), underway as (
	insert into scheduler_go.in_flight (task_id, queue, share_group, cost, claimed)
	select backend_id, @queue, name, cost, @now from claimed
)
select place - 1, count(*) from claimed group by place`, pgx.NamedArgs{
		"type": c.Type.Type, "task_name": c.Type.BackendName, "queue": c.Queue, "now": c.Now,
		"names": names, "counts": counts, "costs": costs,
	})
	if err != nil {
		return nil, err
	}
	taken := make([]int, len(groups))
	var place, n int
	if _, err := pgx.ForEachRow(rows, []any{&place, &n}, func() error { taken[place] = n; return nil }); err != nil {
		return nil, fmt.Errorf("claim tasks of type %q for %d groups: %w", c.Type.Type, len(groups), err)
	}
	return taken, nil
}

// countReadyTasks counts the ready tasks of a group, up to a bound.
func (tx *Tx) countReadyTasks(ctx context.Context, c TaskClaim, by scheduler.ShareKey, group string) (n int, err error) {
	inGroup := "true"
	if by != scheduler.ShareByTaskType {
		inGroup = taskGroup(by) + " = @group"
	}
	err = tx.tx.QueryRow(ctx, `select count(*) from (
	select from task
	where type = @type and status = 'next_run_not_scheduled' and priority is null and next_run <= @now and `+inGroup+`
	limit @bound) ready`,
		pgx.NamedArgs{"type": c.Type.Type, "now": c.Now, "group": group, "bound": maxWaiting}).Scan(&n)
	return n, err
}
