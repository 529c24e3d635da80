-- +goose Up
-- Maintenance jobs, walks, daemons, and what people did.
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

create table scheduler_go.daemons (
  id      uuid primary key,
  name    text not null,
  version text not null,
  host    text not null,
  started timestamptz not null,
  seen    timestamptz not null,
  state   jsonb not null
);

comment on table scheduler_go.daemons is 'The daemons that run, or ended without a word in the last day; each writes its row once a minute';
comment on column scheduler_go.daemons.state is 'For how many seconds it waits for what (waiting), loops are overdue (overdue), and since when each loop had its last good round (last)';

-- What people did to tasks and graphs by the dashboard: an audit, and the work itself, which
-- is done in short steps from the newest task to the oldest. An action on all graphs that a
-- search matches notes the graph before it does anything to it: what is done may change what
-- the graph is searched by, and the rest of the step fail.
create table scheduler_go.actions (
  id      bigint generated always as identity primary key,
  who     text not null,
  began   timestamptz not null default now(),
  action  text not null,
  filter  jsonb not null,
  state   text not null check (state in ('counting', 'counted', 'running', 'done', 'cancelled', 'failed')),
  below   bigint not null,
  place   bigint not null,
  matched bigint not null default 0,
  changed bigint not null default 0,
  result  text not null default '',
  again   timestamptz not null default now(),
  ended   timestamptz,
  in_hand bigint
) with (fillfactor = 50);
create index actions_open_idx on scheduler_go.actions (id) where state in ('counting', 'running');
create index actions_began_idx on scheduler_go.actions using brin (began);

comment on table scheduler_go.actions is 'What people did to tasks and graphs by the dashboard, one row for each action';
comment on column scheduler_go.actions.who is 'The login';
comment on column scheduler_go.actions.action is 'What is done: respawn, disable, …';
comment on column scheduler_go.actions.filter is 'To which tasks or graphs';
comment on column scheduler_go.actions.state is 'counting: what matches is counted. counted: it waits to be confirmed. running: it is done, in steps. done, cancelled, failed: it has ended';
comment on column scheduler_go.actions.below is 'Tasks and graphs of this number or a higher one came later, and are left alone';
comment on column scheduler_go.actions.place is 'How far the count, or the action, came: what is below this number is still to be looked at';
comment on column scheduler_go.actions.matched is 'How many matched when they were counted';
comment on column scheduler_go.actions.changed is 'How many it was done to';
comment on column scheduler_go.actions.result is 'Why it failed, or what the last try of a step met';
comment on column scheduler_go.actions.again is 'When a step that failed is tried again';
comment on column scheduler_go.actions.in_hand is 'The graph of the step in progress, for an action on what a search of graphs matches';

-- A program works with the schema of a newer one, so that an upgrade can be rolled back, if
-- its last migration has this number or a greater one. A migration that an older program
-- can't work with sets it to its own number.
create table scheduler_go.compatible (since bigint not null);
insert into scheduler_go.compatible values (570);
comment on table scheduler_go.compatible is 'A program that knows migration "since" can work with this schema, also if later ones have been applied';
