-- What sqlc has to know besides the schema: the schema that migrate itself
-- makes, temporary tables that functions make, and what functions return.
create schema scheduler_go;
create table tmp_task (like task);
alter table tmp_task alter column retries_left drop not null;
