-- The task types with ready tasks. sql/ledger/claim.go builds the statement of the claim.

-- ReadyTaskTypes lists the task types with ready tasks, of some types only with tasks from a date on. A pass
-- over hundreds of idle types costs this one query. Rows are compared and ordered so that only indexes on type and
-- date in this order help: PostgreSQL's statistics lack the number of dead entries of claimed tasks. Without the
-- order it would read the whole table for each type, if all tasks run later. Tasks with priority have an index, which
-- serves a plan for any values only if their condition has none.
-- name: ReadyTaskTypes :many
select tt.type
from task_type tt
left join (select unnest(@types::text[]) as type, unnest(@since::timestamptz[]) as since) later on later.type = tt.type
cross join lateral (
  (select from task t
   where not @with_priority::boolean and t.priority is null
     and (t.type, t.next_run) >= (tt.type, coalesce(later.since, '-infinity')) and (t.type, t.next_run) <= (tt.type, @now::timestamptz)
     and t.status = 'next_run_not_scheduled'
   order by t.type, t.next_run
   limit 1) -- keeps the planner from reading the tasks of all types at once
  union all
  (select from task t
   where @with_priority::boolean and t.priority is not null
     and (t.type, t.next_run) >= (tt.type, coalesce(later.since, '-infinity')) and (t.type, t.next_run) <= (tt.type, @now::timestamptz)
     and t.status = 'next_run_not_scheduled'
   order by t.type, t.next_run
   limit 1)
) ready;
