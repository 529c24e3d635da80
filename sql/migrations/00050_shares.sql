-- +goose Up
-- What is underway in queues that groups share, and what each group used.

create table scheduler_go.in_flight (
  task_id     uuid primary key,
  queue       text not null,
  share_group text not null,
  cost        double precision not null,
  claimed     timestamptz not null,
  started     double precision
) with (
  -- Rows come and go with the work: room on the page for their start, and a
  -- vacuum now and then.
  fillfactor = 80, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.1
);
create index in_flight_queue_idx on scheduler_go.in_flight (queue, share_group);

comment on table scheduler_go.in_flight is 'Work sent to queues that groups share, until its outcome is heard or it is given up';
comment on column scheduler_go.in_flight.task_id is 'Celery''s id of the task';
comment on column scheduler_go.in_flight.queue is 'Routing key on the default exchange';
comment on column scheduler_go.in_flight.share_group is 'The group it is counted for';
comment on column scheduler_go.in_flight.cost is 'Seconds of work it was expected to be when it was claimed';
comment on column scheduler_go.in_flight.started is 'When a worker began it, on the worker''s clock, seconds since 1970 UTC; null until that is heard';

create table scheduler_go.share_charges (
  queue       text not null,
  share_group text not null,
  heard       timestamptz not null,
  seconds     double precision not null,
  pieces      integer not null
);

comment on table scheduler_go.share_charges is 'Work that ended and is not yet counted in shares: listeners add rows, so that they need not wait for each other, and the next claim counts them';
comment on column scheduler_go.share_charges.heard is 'When the end was heard of';
comment on column scheduler_go.share_charges.pieces is 'How many visits or runs of tasks that were';

create table scheduler_go.shares (
  queue       text not null,
  share_group text not null,
  used        double precision not null default 0,
  pieces      double precision not null default 0,
  forgone     double precision not null default 0,
  as_of       timestamptz not null,
  busy        boolean not null default false,
  primary key (queue, share_group)
) with (fillfactor = 50);

comment on table scheduler_go.shares is 'What each group of a queue used lately, written under the queue''s lock';
comment on column scheduler_go.shares.used is 'Seconds of work that ended, halved each half-life, as of as_of';
comment on column scheduler_go.shares.pieces is 'How many visits or runs that were, halved likewise';
comment on column scheduler_go.shares.forgone is 'Seconds that the group did not use while it had nothing to do, halved likewise: counted as used, so that nothing is saved up';
comment on column scheduler_go.shares.busy is 'Whether the last claim left some of its work waiting';

create table scheduler_go.share_history (
  queue       text not null,
  share_group text not null,
  minute      timestamptz not null,
  seconds     double precision not null,
  pieces      bigint not null,
  primary key (queue, share_group, minute)
);

comment on table scheduler_go.share_history is 'Work that ended in each minute of the last hours, by group';

alter table scheduler_go.candidate_build add column by_lister boolean not null default false;
comment on column scheduler_go.candidate_build.by_lister is 'Whether candidates have indexes by lister too, for queues that groups of listers share';

-- +goose Down
alter table scheduler_go.candidate_build drop column by_lister;
drop table scheduler_go.share_history;
drop table scheduler_go.shares;
drop table scheduler_go.share_charges;
drop table scheduler_go.in_flight;
