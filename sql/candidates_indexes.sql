-- The indexes of scheduler_go.candidates. They are made one by one, once its rows
-- are there; each statement does nothing if its index is there already.

-- The way from an origin to its candidates; a hash is a quarter of the size of
-- the URLs, and no order is wanted.
create index if not exists candidates_url_idx on scheduler_go.candidates using hash (url);

create index if not exists candidates_parked_idx on scheduler_go.candidates (visit_type, due)
  where parked;

-- One for each policy, in its order; candidates_grab.go has the same conditions.
create index if not exists candidates_oldest_scheduled_idx on scheduler_go.candidates
  (visit_type, last_scheduled nulls first) where not parked;

create index if not exists candidates_unsuccessful_idx on scheduler_go.candidates
  (visit_type, last_update, first_seen) where not parked and not successful;

create index if not exists candidates_never_loaded_idx on scheduler_go.candidates
  (visit_type, last_update) where not parked and not loaded and last_update is not null;

create index if not exists candidates_lag_idx on scheduler_go.candidates
  (visit_type, lag desc) where not parked and lag is not null;

create index if not exists candidates_without_update_idx on scheduler_go.candidates
  (visit_type, queue_position nulls first, first_seen) where not parked and last_update is null;

create index if not exists candidates_others_idx on scheduler_go.candidates
  (visit_type, queue_position nulls first, first_seen)
  where not parked and loaded and last_update is not null and lag is null;
