-- +goose Up
-- Shares of queues, and limits of hosters.
create table scheduler_go.share_charges (
  queue       text not null,
  share_group text not null,
  heard       timestamptz not null,
  seconds     double precision not null,
  pieces      integer not null
);

comment on table scheduler_go.share_charges is 'Work that ended and is not counted in shares yet: listeners add rows, so that they need not wait for each other, and the next claim counts them';
comment on column scheduler_go.share_charges.heard is 'When its end was heard';
comment on column scheduler_go.share_charges.pieces is 'How many visits, or runs of tasks, that were';

create table scheduler_go.shares (
  queue         text not null,
  share_group   text not null,
  used          double precision not null default 0,
  pieces        double precision not null default 0,
  forgone       double precision not null default 0,
  as_of         timestamptz not null,
  busy          boolean not null default false,
  tasks_waited  double precision not null default 0,
  visits_waited double precision not null default 0,
  primary key (queue, share_group)
) with (fillfactor = 50);

comment on table scheduler_go.shares is 'How much of a queue each group used lately; written under the queue''s lock';
comment on column scheduler_go.shares.used is 'Seconds of its work that ended, as they count at as_of: half as much after each half-life';
comment on column scheduler_go.shares.pieces is 'How many visits, or runs of tasks, that were, counted likewise';
comment on column scheduler_go.shares.forgone is 'Seconds that it did not use while it had nothing to do, counted likewise: they count as used, so that nothing is saved up';
comment on column scheduler_go.shares.busy is 'For programs that know no more: whether the last claim left work of it waiting';
comment on column scheduler_go.shares.tasks_waited is 'When a claim of tasks left some of it waiting, in seconds since 1970 UTC; 0: the last one that looked at it did not';
comment on column scheduler_go.shares.visits_waited is 'The same, of claims of visits';

create table scheduler_go.share_history (
  queue       text not null,
  share_group text not null,
  minute      timestamptz not null,
  seconds     double precision not null,
  pieces      bigint not null,
  primary key (queue, share_group, minute)
);

comment on table scheduler_go.share_history is 'How much work ended in each minute of the last hours, by group';

create table scheduler_go.hoster_claims (
  hoster  text not null,
  claimed timestamptz not null,
  visits  integer not null
);
create index hoster_claims_idx on scheduler_go.hoster_claims (claimed);

comment on table scheduler_go.hoster_claims is 'How many visits of hosters with a limit were claimed in the last minute';
