-- +goose Up
-- Visits that the journal client could not apply, or needs again later.
create table scheduler_go.rejected_records (
  id            bigint generated always as identity primary key,
  topic         text not null,
  partition     integer not null,
  record_offset bigint not null,
  kind          text not null,
  detail        text not null,
  rejected_at   timestamptz not null default now(),
  unique (topic, partition, record_offset)
);

comment on table scheduler_go.rejected_records is 'Journal records that could not be understood or stored, with what it takes to find them in Kafka; the newest 10,000 are kept';
comment on column scheduler_go.rejected_records.kind is 'What is wrong with it, as the metrics name it';
comment on column scheduler_go.rejected_records.detail is 'What is wrong with it, in words';

create table scheduler_go.visit_failures (
  url          text not null,
  visit_type   text not null,
  last_failure timestamptz not null,
  in_a_row     integer not null default 0,
  primary key (url, visit_type)
);

comment on table scheduler_go.visit_failures is 'The last visit of each origin that failed or found nothing; written only where failed visits are configured to keep the date of the last visit, or to disable origins in any mixture (disable_after_mixed)';
comment on column scheduler_go.visit_failures.last_failure is 'Date of the visit';
comment on column scheduler_go.visit_failures.in_a_row is 'How many visits in a row failed or found nothing; 0 after one that succeeded';

create table scheduler_go.held_visits (
  task_id    uuid not null,
  url        text not null,
  visit_type text not null,
  date       timestamptz not null,
  primary key (url, visit_type, date)
);
create index held_visits_task_idx on scheduler_go.held_visits (task_id);

comment on table scheduler_go.held_visits is 'Failed visits that the journal client keeps back, as they may be time-outs, which are tried again: one counts when its try has ended otherwise, that is, when no outgoing or sent work has its task_id';
comment on column scheduler_go.held_visits.task_id is 'The try: work.task_id';
comment on column scheduler_go.held_visits.date is 'Date of the visit';
