-- +goose Up
-- By which a longer lane with free slots takes the likely slowest of another lane's backlog.
alter table scheduler_go.work add column expected double precision;
comment on column scheduler_go.work.expected is 'Seconds that it was predicted to run when it was claimed; null: nothing was known, or it has no lanes';
