-- +goose Up
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
