-- +goose Up
-- Who is logged in to the dashboard, what signs its forms, and who acted from where.
create table if not exists scheduler_go.sessions (
  id         bigint generated always as identity primary key,
  key        bytea not null unique check (length(key) = 32),
  who        text not null,
  credential bytea not null check (length(credential) = 32),
  began      timestamptz not null default now(),
  ends       timestamptz not null,
  address    text not null
);
create index if not exists sessions_who_idx on scheduler_go.sessions (who, id);

create table if not exists scheduler_go.form_key (
  only_row boolean primary key default true check (only_row),
  key      bytea not null check (length(key) = 32)
);

alter table scheduler_go.actions
  add column if not exists address text not null default '',
  add column if not exists confirmed_by text not null default '',
  add column if not exists cancelled_by text not null default '';

comment on table scheduler_go.sessions is 'Sessions of the dashboard; only the owner, rpc-serve and the dashboard use it';
comment on column scheduler_go.sessions.key is 'SHA-256 of the key that the browser has';
comment on column scheduler_go.sessions.credential is 'SHA-256 of the user with the hash of the password: a session of another one counts for nothing';
comment on column scheduler_go.sessions.address is 'From where it began';
comment on table scheduler_go.form_key is 'What signs forms and the keys of sessions of the dashboard; only the owner, rpc-serve and the dashboard use it';
comment on column scheduler_go.form_key.only_row is 'There is one row at most';
comment on column scheduler_go.form_key.key is 'Random; without a row the next one who needs it makes one';
comment on column scheduler_go.actions.address is 'From where it was begun';
comment on column scheduler_go.actions.confirmed_by is 'The login that confirmed it, and from where';
comment on column scheduler_go.actions.cancelled_by is 'The login that cancelled it, and from where';

revoke all on scheduler_go.sessions, scheduler_go.form_key from public;
