-- +goose Up
-- The triggers of candidates on listed_origins.
create trigger scheduler_go_candidate_insert after insert on listed_origins
for each row when (new.enabled)
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_update after update on listed_origins
for each row when (
  (old.enabled or new.enabled)
  and (old.lister_id, old.url, old.visit_type, old.enabled, old.first_seen, old.last_update, old.is_fork)
    is distinct from (new.lister_id, new.url, new.visit_type, new.enabled, new.first_seen, new.last_update, new.is_fork))
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_delete after delete on listed_origins
for each row when (old.enabled)
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_truncate after truncate on listed_origins
execute function scheduler_go.rebuild_candidates();
