-- +goose Up
create table scheduler_go.keeper (
  job     text primary key,
  began   timestamptz not null default 'epoch',
  until   timestamptz not null default 'epoch',
  seconds double precision not null default 0,
  result  text not null default '',
  failed  boolean not null default false
) with (fillfactor = 50);

comment on table scheduler_go.keeper is 'Maintenance jobs; each is done by one process at a time';
comment on column scheduler_go.keeper.began is 'When the last run began, by the database''s clock';
comment on column scheduler_go.keeper.until is 'Until when the process that began it has the job to itself; the epoch: it has ended';
comment on column scheduler_go.keeper.seconds is 'How long the last run that ended took';
comment on column scheduler_go.keeper.result is 'What that run did, in words, or why it failed';
