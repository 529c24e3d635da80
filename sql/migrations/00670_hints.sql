-- +goose Up
-- Hints: news of sources outside that origins have changed.
create table scheduler_go.hints (
  origin      bigint primary key,
  url         text not null,
  visit_type  text not null,
  source      text not null,
  changed_at  timestamptz not null,
  received_at timestamptz not null,
  moved       boolean not null,
  snapshot    bytea,
  visited     timestamptz,
  found       boolean,
  check_at    timestamptz not null
) with (autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
create index hints_check_idx on scheduler_go.hints (check_at) where visited is null;
create index hints_received_idx on scheduler_go.hints (received_at);

comment on table scheduler_go.hints is 'The last hint of each enabled origin, of 30 days';
comment on column scheduler_go.hints.origin is 'Hash of visit type and URL, as in scheduler_go.freshness';
comment on column scheduler_go.hints.source is 'Who has the news';
comment on column scheduler_go.hints.changed_at is 'When the origin changed, by the source; not after received_at';
comment on column scheduler_go.hints.received_at is 'When the hint came';
comment on column scheduler_go.hints.moved is 'Whether the hint moved the last update of the origin; false: a lister had that date or a later one';
comment on column scheduler_go.hints.snapshot is 'Last snapshot of the origin when the hint came';
comment on column scheduler_go.hints.visited is 'Date of the first visit after the hint that succeeded; null: none is known';
comment on column scheduler_go.hints.found is 'Whether that visit found another snapshot';
comment on column scheduler_go.hints.check_at is 'When to check next for that visit';

create table scheduler_go.hint_sources (
  source     text primary key,
  moved      bigint not null default 0,
  newer      bigint not null default 0,
  repeated   bigint not null default 0,
  unknown    bigint not null default 0,
  created    bigint not null default 0,
  disabled   bigint not null default 0,
  refused    bigint not null default 0,
  visits     bigint not null default 0,
  found      bigint not null default 0,
  first_hint timestamptz not null,
  last_hint  timestamptz not null
) with (fillfactor = 50);

comment on table scheduler_go.hint_sources is 'Counts of the hints of each source, until 400 days after its last hint; of at most 1,000 sources, the others together';
comment on column scheduler_go.hint_sources.moved is 'Hints that moved the last update of an origin';
comment on column scheduler_go.hint_sources.newer is 'Hints of origins that had that date or a later one';
comment on column scheduler_go.hint_sources.repeated is 'Hints of origins that wait for a visit after an update of less than a minute before';
comment on column scheduler_go.hint_sources.unknown is 'Hints of origins that no lister lists';
comment on column scheduler_go.hint_sources.created is 'Hints that created an origin of the lister of hints';
comment on column scheduler_go.hint_sources.disabled is 'Hints of disabled origins';
comment on column scheduler_go.hint_sources.refused is 'Hints that are not valid';
comment on column scheduler_go.hint_sources.visits is 'First visits after hints that succeeded';
comment on column scheduler_go.hint_sources.found is 'Those of these visits that found another snapshot';
