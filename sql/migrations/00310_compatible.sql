-- +goose Up
-- A program works with the schema of a newer one, so that an upgrade can be rolled back, if
-- it knows this migration. One that an older program can't work with sets it to its own
-- number.
create table scheduler_go.compatible (since bigint not null);
insert into scheduler_go.compatible values (310);
comment on table scheduler_go.compatible is 'A program that knows migration "since" can work with this schema, also if later ones have been applied';
