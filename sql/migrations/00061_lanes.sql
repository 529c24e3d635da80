-- +goose Up
-- Lanes: work on its way to workers whose queues have time limits, and what is
-- remembered of how long work takes.

create table scheduler_go.lane_work (
  task_id    uuid primary key,
  root_id    uuid not null,
  line       text not null,
  lane       smallint not null,
  sent       boolean not null default false,
  timed_out  smallint not null default 0,
  place      bigint generated always as identity,
  since      timestamptz not null,
  claimed    timestamptz not null,

  task_name  text not null,
  args       json not null,
  kwargs     json not null,
  urgent     boolean not null,
  queue      text not null,

  memory     bigint not null,
  lister     text not null,
  first      boolean not null,
  behind     double precision not null,
  visit_type text,
  url        text,

  -- Of the present try, from when it is sent.
  lane_name  text,
  soft_limit double precision,
  hard_limit double precision,
  below      double precision,
  lanes_left smallint not null default 0,
  started    double precision,
  -- Of the try before.
  over       double precision
) with (
  -- Rows come and go with the work: see in_flight.
  fillfactor = 80, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.1
);
create index lane_work_line_idx on scheduler_go.lane_work (line, lane, (timed_out = 0), since, place) where not sent;
create index lane_work_sent_idx on scheduler_go.lane_work (line, lane, claimed) where sent;
create index lane_work_visit_idx on scheduler_go.lane_work (url, visit_type) where url is not null;

comment on table scheduler_go.lane_work is 'Work of task types with lanes, from its claim until its end is heard or it is given up';
comment on column scheduler_go.lane_work.task_id is 'Celery''s id of the present try: each has its own, so that a late event of one before is about nothing';
comment on column scheduler_go.lane_work.root_id is 'Celery''s id of the first try';
comment on column scheduler_go.lane_work.line is 'The task type in the configuration of lanes, or save_code_now:<task type>';
comment on column scheduler_go.lane_work.lane is 'Place of the lane, from 0, in whose line or queue it is';
comment on column scheduler_go.lane_work.sent is 'Whether it is in the lane''s queue (or the outbox, or running), or waits in its line';
comment on column scheduler_go.lane_work.timed_out is 'In how many lanes its time was over';
comment on column scheduler_go.lane_work.place is 'Breaks ties of since';
comment on column scheduler_go.lane_work.since is 'When it came into the line, or was sent';
comment on column scheduler_go.lane_work.queue is 'Its queue; while it was not sent yet, where it would go without lanes';
comment on column scheduler_go.lane_work.memory is 'Key of lane_memory';
comment on column scheduler_go.lane_work.lister is 'Name of its lister; empty if it has none';
comment on column scheduler_go.lane_work.first is 'Whether nothing of the origin is archived yet';
comment on column scheduler_go.lane_work.behind is 'Seconds of news it has to catch up with; 0 where not known';
comment on column scheduler_go.lane_work.url is 'The origin, of a loader''s task';
comment on column scheduler_go.lane_work.lane_name is 'The lane''s name, for the history';
comment on column scheduler_go.lane_work.soft_limit is 'Seconds';
comment on column scheduler_go.lane_work.hard_limit is 'Seconds';
comment on column scheduler_go.lane_work.below is 'Soft limit of the lane before, if it was predicted not to keep it';
comment on column scheduler_go.lane_work.lanes_left is 'How many lanes come after this one';
comment on column scheduler_go.lane_work.started is 'When a worker began it, on the worker''s clock, seconds since 1970 UTC; null until that is heard';
comment on column scheduler_go.lane_work.over is 'When the time of the try before was over, on the worker''s clock, seconds since 1970 UTC';

create table scheduler_go.lane_memory (
  memory   bigint primary key,
  seconds  real not null,
  before   real not null,
  at_least boolean not null,
  behind   real not null,
  recorded timestamptz not null
) with (fillfactor = 90);
create index lane_memory_recorded_idx on scheduler_go.lane_memory using brin (recorded);

comment on table scheduler_go.lane_memory is 'How long the last tries of pieces of work took, to predict the next';
comment on column scheduler_go.lane_memory.memory is 'Hash of the task type and the origin''s URL, or of the type and arguments; two with one hash share their memory, which costs a wrong prediction';
comment on column scheduler_go.lane_memory.seconds is 'The last time';
comment on column scheduler_go.lane_memory.before is 'The time before; 0 if there was none';
comment on column scheduler_go.lane_memory.at_least is 'The last time was over before it was done';
comment on column scheduler_go.lane_memory.behind is 'Seconds of news the last time; 0 where not known';
comment on column scheduler_go.lane_memory.recorded is 'When it was heard of, by which rows are forgotten';

create table scheduler_go.lane_sketches (
  line   text not null,
  lister text not null,
  first  boolean not null,
  bucket smallint not null,
  weight double precision not null,
  as_of  timestamptz not null,
  primary key (line, lister, first, bucket)
) with (fillfactor = 50);

comment on table scheduler_go.lane_sketches is 'How long work took of each lister, and of all (empty name): counts that are halved each week, by powers of 1.25 seconds';

create table scheduler_go.lane_history (
  line   text not null,
  lane   text not null,
  minute timestamptz not null,
  what   text not null,
  bucket smallint not null,
  pieces bigint not null,
  primary key (line, lane, minute, what, bucket)
);

comment on table scheduler_go.lane_history is 'What happened in each minute of the last day, by lane';
comment on column scheduler_go.lane_history.what is 'wait (from the claim to the start of the first try, by bucket), ended, timed_out, quick_sent_slow, slow_sent_express, unheard';

create table scheduler_go.held_visits (
  task_id    uuid not null,
  url        text not null,
  visit_type text not null,
  date       timestamptz not null,
  primary key (url, visit_type, date)
);
create index held_visits_task_idx on scheduler_go.held_visits (task_id);

comment on table scheduler_go.held_visits is 'Failed visits that the journal client keeps back, as they may be time-outs that are tried again: they count when the try has ended otherwise, which is when lane_work has no such task_id';

-- +goose Down
drop table scheduler_go.held_visits;
drop table scheduler_go.lane_history;
drop table scheduler_go.lane_sketches;
drop table scheduler_go.lane_memory;
drop table scheduler_go.lane_work;
