-- +goose Up
-- Visits that fail and visits that find nothing by turns may disable an origin, too.
alter table scheduler_go.visit_failures add column in_a_row integer not null default 0;
comment on table scheduler_go.visit_failures is 'The last visit of each origin that failed or found nothing; written only where failed visits are configured to keep the date of the last visit, or to disable origins in any mixture (disable_after_mixed)';
comment on column scheduler_go.visit_failures.in_a_row is 'How many visits in a row failed or found nothing; 0 after one that succeeded';
