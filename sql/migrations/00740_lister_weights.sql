-- +goose Up
-- How much the staleness of a lister's origins counts for the policy freshness.
alter table scheduler_go.listings add column if not exists weight double precision not null default 1 check (weight between 0.001 and 1000);
comment on column scheduler_go.listings.weight is 'How much the staleness of its origins counts for the policy freshness, beside that of others';
