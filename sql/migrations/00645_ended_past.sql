-- +goose Up
-- What ended longer ago: hours of the last month, days of the last two years.
create table if not exists scheduler_go.ended_past (
  span      text not null check (span in ('hour', 'day')),
  since     timestamptz not null,
  source    text not null,
  type      text not null,
  status    text not null,
  exception text not null,
  pieces    bigint not null,
  seconds   double precision not null,
  buckets   smallint[] not null,
  counts    bigint[] not null check (cardinality(counts) = cardinality(buckets)),
  primary key (span, source, type, since, status, exception)
);
create index if not exists ended_past_since_idx on scheduler_go.ended_past (span, since);

-- Failures by class of the exception, however long ago.
create table if not exists scheduler_go.errors (
  type      text not null,
  exception text not null,
  first     timestamptz not null,
  last      timestamptz not null,
  primary key (type, exception)
);

comment on table scheduler_go.ended_past is 'What ended in each hour and each day, by type: minutes of scheduler_go.ended are moved here after three hours';
comment on column scheduler_go.ended_past.span is 'How long the row''s time is: hour (kept for 30 days) or day (kept for two years); both count the same work';
comment on column scheduler_go.ended_past.since is 'When the hour or the day began, in UTC';
comment on column scheduler_go.ended_past.source is 'As in scheduler_go.ended';
comment on column scheduler_go.ended_past.exception is 'As in scheduler_go.ended; (other): one of those beyond the 20 most frequent of the type';
comment on column scheduler_go.ended_past.seconds is 'How long all of it took, of what that is known of';
comment on column scheduler_go.ended_past.buckets is 'The buckets of scheduler_go.ended that have anything, ascending; those of several rows can be added up';
comment on column scheduler_go.ended_past.counts is 'How many are in each bucket';
comment on table scheduler_go.errors is 'When tasks of each type first and last failed by each class of exception, up to three hours ago; at most 200 classes a type, those of the last two years';
comment on column scheduler_go.errors.type is 'Task type';
comment on column scheduler_go.errors.exception is 'Class of the exception; empty if there was none';
comment on column scheduler_go.errors.first is 'Minute of the first failure';
comment on column scheduler_go.errors.last is 'Minute of the last failure that is no longer in scheduler_go.ended';
