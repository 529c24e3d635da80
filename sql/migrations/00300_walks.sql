-- +goose Up
create table scheduler_go.walks (
  name     text primary key,
  began    timestamptz not null default 'epoch',
  place    bigint,
  so_far   jsonb not null default '{}',
  finished timestamptz,
  result   jsonb not null default '{}'
) with (fillfactor = 50);

comment on table scheduler_go.walks is 'Walks over whole tables, in short steps, each with what it has found';
comment on column scheduler_go.walks.began is 'When the last walk began, by the database''s clock';
comment on column scheduler_go.walks.place is 'How far it came: a page of the table, or the number of a row; null: it has ended';
comment on column scheduler_go.walks.so_far is 'What it has found up to there';
comment on column scheduler_go.walks.finished is 'When the last whole walk ended; null: there was none';
comment on column scheduler_go.walks.result is 'What that found';
