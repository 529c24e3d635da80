-- The indexes of scheduler_go.candidates in the order of each policy by lister,
-- for queues that groups of listers share: a small lister's origins are found
-- without passing by a large one's. Without shares they are not made.

create index if not exists candidates_lister_oldest_scheduled_idx on scheduler_go.candidates
  (visit_type, lister_id, last_scheduled nulls first) where not parked;

create index if not exists candidates_lister_unsuccessful_idx on scheduler_go.candidates
  (visit_type, lister_id, last_update, first_seen) where not parked and not successful;

create index if not exists candidates_lister_never_loaded_idx on scheduler_go.candidates
  (visit_type, lister_id, last_update) where not parked and not loaded and last_update is not null;

create index if not exists candidates_lister_lag_idx on scheduler_go.candidates
  (visit_type, lister_id, lag desc) where not parked and lag is not null;

create index if not exists candidates_lister_without_update_idx on scheduler_go.candidates
  (visit_type, lister_id, queue_position nulls first, first_seen) where not parked and last_update is null;

create index if not exists candidates_lister_others_idx on scheduler_go.candidates
  (visit_type, lister_id, queue_position nulls first, first_seen)
  where not parked and loaded and last_update is not null and lag is null;
