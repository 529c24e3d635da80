-- +goose Up
-- The role that daemons work as through an RPC server, while "migrate --door" has it open.
create table scheduler_go.door (
  only_row boolean primary key default true check (only_row),
  role     text not null,
  password text not null,
  opened   timestamptz
);

comment on table scheduler_go.door is 'The role of the RPC servers'' door to the database; only the owner reads it';
comment on column scheduler_go.door.only_row is 'There is one row at most';
comment on column scheduler_go.door.role is 'Name of the role';
comment on column scheduler_go.door.password is 'Its password';
comment on column scheduler_go.door.opened is 'When the door was opened; null: its role is not complete';

revoke all on scheduler_go.door from public;
