-- +goose Up
-- +goose StatementBegin
create function scheduler_go.notify_priority_task() returns trigger
language plpgsql as $$
begin
  notify scheduler_go_priority_task;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.notify_priority_task() is 'Wakes the priority runner';

create trigger scheduler_go_priority_task
after insert or update of status, next_run, priority on task
for each row when (new.priority is not null and new.status = 'next_run_not_scheduled')
execute function scheduler_go.notify_priority_task();

-- +goose Down
drop trigger scheduler_go_priority_task on task;
drop function scheduler_go.notify_priority_task();
