-- +goose Up
-- The triggers of candidates on origin_visit_stats. They skip changes that a claim notes itself.
create trigger scheduler_go_candidate_insert after insert on origin_visit_stats
for each row when (current_setting('scheduler_go.noted', true) is distinct from 'on')
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_update after update on origin_visit_stats
for each row when (
  (old.url, old.visit_type, old.last_successful, old.last_visit, old.last_visit_status,
   old.last_scheduled, old.last_snapshot is null, old.next_visit_queue_position)
  is distinct from
  (new.url, new.visit_type, new.last_successful, new.last_visit, new.last_visit_status,
   new.last_scheduled, new.last_snapshot is null, new.next_visit_queue_position)
  and current_setting('scheduler_go.noted', true) is distinct from 'on')
execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_delete after delete on origin_visit_stats
for each row execute function scheduler_go.note_candidate();

create trigger scheduler_go_candidate_truncate after truncate on origin_visit_stats
execute function scheduler_go.rebuild_candidates();
