-- +goose Up
create table scheduler_go.ended (
  minute    timestamptz not null,
  source    text not null,
  type      text not null,
  status    text not null,
  exception text not null,
  bucket    smallint not null,
  part      smallint not null,
  pieces    bigint not null,
  seconds   double precision not null,
  primary key (minute, source, type, status, exception, bucket, part)
);
comment on table scheduler_go.ended is 'What ended in each minute of the last hours, by type, for rates and runtimes';
comment on column scheduler_go.ended.source is 'Who told of it: worker (events of runs, and of visits of groups and lanes; by task type) or journal (visits; by visit type)';
comment on column scheduler_go.ended.exception is 'The class of the exception by which it failed; empty for none';
comment on column scheduler_go.ended.bucket is 'How long it took, by powers of 1.25 seconds; -1 if that is not known';
comment on column scheduler_go.ended.part is 'Of several writers at the same time each writes rows of its own';
comment on column scheduler_go.ended.seconds is 'How long all of it took';
