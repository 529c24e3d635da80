-- +goose Up
-- Lanes: how long work takes, as learnt, and their history.
create table scheduler_go.lane_memory (
  memory   bigint primary key,
  seconds  real not null,
  before   real not null,
  at_least boolean not null,
  behind   real not null,
  recorded timestamptz not null
) with (fillfactor = 90);
create index lane_memory_recorded_idx on scheduler_go.lane_memory using brin (recorded);

comment on table scheduler_go.lane_memory is 'How long the last two tries of each visit or task took, to predict the next';
comment on column scheduler_go.lane_memory.memory is 'Hash of the task type and the origin''s URL, or of the type and arguments; where two have the same one, predictions are wrong, and no more';
comment on column scheduler_go.lane_memory.seconds is 'Seconds that the last try took';
comment on column scheduler_go.lane_memory.before is 'Seconds that the try before took; 0: there was none';
comment on column scheduler_go.lane_memory.at_least is 'Whether the last try timed out, and so would have taken longer';
comment on column scheduler_go.lane_memory.behind is 'Seconds of news that the last try had to catch up with; 0: not known';
comment on column scheduler_go.lane_memory.recorded is 'When that was heard; the row is deleted some months after';

create table scheduler_go.lane_sketches (
  lane_set text not null,
  lister   text not null,
  first    boolean not null,
  bucket   smallint not null,
  weight   double precision not null,
  as_of    timestamptz not null,
  primary key (lane_set, lister, first, bucket)
) with (fillfactor = 50);

comment on table scheduler_go.lane_sketches is 'How long work of each lister took, and of all (empty name): counts, halved each week, by powers of 1.25 seconds';

create table scheduler_go.lane_history (
  lane_set text not null,
  lane     text not null,
  minute   timestamptz not null,
  what     text not null,
  bucket   smallint not null,
  pieces   bigint not null,
  primary key (lane_set, lane, minute, what, bucket)
);

comment on table scheduler_go.lane_history is 'What happened on each lane in each minute of the last day';
comment on column scheduler_go.lane_history.what is 'What happened: wait (from the claim to the start of the first try; by bucket), ended, timed_out, quick_sent_slow, slow_sent_express or unheard';

create table scheduler_go.lane_timeouts (
  url        text not null,
  visit_type text not null,
  claimed    timestamptz not null,
  timed_out  double precision not null,
  recorded   timestamptz not null,
  primary key (url, visit_type)
) with (fillfactor = 90);

comment on table scheduler_go.lane_timeouts is 'The last visit of each origin that timed out on a lane and went on in the next one; kept beyond its end, as the journal may tell of the time-out later';
comment on column scheduler_go.lane_timeouts.claimed is 'When the visit was claimed';
comment on column scheduler_go.lane_timeouts.timed_out is 'When it timed out, by the worker''s clock, in seconds since 1970 UTC';
comment on column scheduler_go.lane_timeouts.recorded is 'When that was heard; the row is deleted some time after';

create table scheduler_go.configured_lanes (
  lane_set text primary key,
  seen     timestamptz not null,
  unseen timestamptz,
  looked timestamptz
) with (fillfactor = 50);

comment on table scheduler_go.configured_lanes is 'Lane sets that processes have in their configuration';
comment on column scheduler_go.configured_lanes.seen is 'When a process last said so, by the database''s clock; each does every minute';
comment on column scheduler_go.configured_lanes.unseen is 'Since when looks have found that no process has it in its configuration; null: the last one found that one has';
comment on column scheduler_go.configured_lanes.looked is 'When maintenance last looked, if it had a backlog; after a time without looks, unseen begins anew';
