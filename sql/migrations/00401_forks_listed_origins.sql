-- +goose Up
-- The trigger of candidates on listed_origins (00220) notes origins that become forks, too
-- (00400). PostgreSQL 13 can't replace a trigger.
drop trigger scheduler_go_candidate_update on listed_origins;
create trigger scheduler_go_candidate_update after update on listed_origins
for each row when (
  (old.enabled or new.enabled)
  and (old.lister_id, old.url, old.visit_type, old.enabled, old.first_seen, old.last_update, old.is_fork)
    is distinct from (new.lister_id, new.url, new.visit_type, new.enabled, new.first_seen, new.last_update, new.is_fork))
execute function scheduler_go.note_candidate();
