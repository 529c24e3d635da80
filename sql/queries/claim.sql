-- Which task types have something to claim; the claim itself is put together in sql/ledger/claim.go.

-- ReadyTaskTypes lists the task types with ready tasks, so that a pass over hundreds of idle types costs
-- one query.
-- name: ReadyTaskTypes :many
select tt.type
from task_type tt
where exists (
  select from task t
  where t.type = tt.type
    and t.status = 'next_run_not_scheduled'
    and t.next_run <= @now
    and (t.priority is not null) = @with_priority::boolean
);
