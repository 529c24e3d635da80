-- +goose Up
-- What people did to tasks and graphs by the dashboard: an audit, and the work itself, which
-- is done in short steps from the newest task to the oldest.
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
  ended   timestamptz
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
