-- +goose Up
alter table scheduler_go.shares
  add column tasks_waited double precision not null default 0,
  add column visits_waited double precision not null default 0;
comment on column scheduler_go.shares.busy is 'For programs that know no more: whether the last claim left work of it waiting';
comment on column scheduler_go.shares.tasks_waited is 'When a claim of tasks left some of it waiting, in seconds since 1970 UTC; 0: the last one that looked at it did not';
comment on column scheduler_go.shares.visits_waited is 'The same, of claims of visits';
