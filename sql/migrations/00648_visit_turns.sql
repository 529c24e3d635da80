-- +goose Up
-- When visits of an origin began to end otherwise than those before.
create table if not exists scheduler_go.visit_turns (
  id          bigint generated always as identity primary key,
  origin      bigint not null,
  at          timestamptz not null,
  status      text not null,
  before      text not null,
  visits      integer not null,
  last_before timestamptz not null
);
create index if not exists visit_turns_origin_idx on scheduler_go.visit_turns (origin, id);

comment on table scheduler_go.visit_turns is 'Visits that ended otherwise than the one before, of 400 days, the newest 10,000,000: those between two of them ended alike';
comment on column scheduler_go.visit_turns.origin is 'Hash of visit type and URL, as in scheduler_go.freshness';
comment on column scheduler_go.visit_turns.at is 'Date of the visit';
comment on column scheduler_go.visit_turns.status is 'How it ended';
comment on column scheduler_go.visit_turns.before is 'How the visits before ended';
comment on column scheduler_go.visit_turns.visits is 'How many visits in a row had ended so';
comment on column scheduler_go.visit_turns.last_before is 'Date of the last of these';
