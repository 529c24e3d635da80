-- The task types with ready tasks. sql/ledger/claim.go builds the statement of the claim.

-- ReadyTaskTypes lists the task types with ready tasks. A pass over hundreds of idle types costs this one
-- query.
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
