-- +goose Up
-- Hosters that refused visits, and the origins that met it.
create table if not exists scheduler_go.refusing_hosters (
  hoster     text primary key,
  max_load   double precision not null,
  closed     timestamptz not null,
  level      double precision not null,
  lowered    timestamptz not null,
  until      timestamptz not null,
  waits      integer not null,
  rounds     double precision not null,
  raised     timestamptz not null,
  since      timestamptz not null,
  score      double precision not null,
  refused    timestamptz not null,
  kind       text not null,
  reason     text not null,
  in_flight  integer not null,
  counted    timestamptz not null,
  mixed      boolean not null
) with (fillfactor = 50);

comment on table scheduler_go.refusing_hosters is 'Hosters that refused visits of late, and how many they get (internal/refusals): the last 10,000, for a week after the last refusal, or after the wait. A time of 1970 is none';
comment on column scheduler_go.refusing_hosters.hoster is 'An instance of a lister (name/instance), or a host';
comment on column scheduler_go.refusing_hosters.max_load is 'The most visits in flight; 0: it refused too few for a limit';
comment on column scheduler_go.refusing_hosters.closed is 'It gets no visit before';
comment on column scheduler_go.refusing_hosters.level is 'What it had, or was allowed, in flight when it was last lowered';
comment on column scheduler_go.refusing_hosters.until is 'When the limit begins to rise';
comment on column scheduler_go.refusing_hosters.waits is 'Number of waits that ended in another refusal';
comment on column scheduler_go.refusing_hosters.rounds is 'Rounds of visits that succeeded since until';
comment on column scheduler_go.refusing_hosters.raised is 'When a visit last raised the limit';
comment on column scheduler_go.refusing_hosters.since is 'The first refusal after the last visit that succeeded';
comment on column scheduler_go.refusing_hosters.score is 'Refusals without a lowering, less one for each hundred successes';
comment on column scheduler_go.refusing_hosters.refused is 'The last refusal';
comment on column scheduler_go.refusing_hosters.kind is 'Its kind, as the metrics name it';
comment on column scheduler_go.refusing_hosters.reason is 'The beginning of its error';
comment on column scheduler_go.refusing_hosters.in_flight is 'Its visits in flight at counted';
comment on column scheduler_go.refusing_hosters.mixed is 'Whether these are visits of several hosts';

create table if not exists scheduler_go.refused_visits (
  url        text not null,
  visit_type text not null,
  claimed    timestamptz not null,
  ended      double precision not null,
  again      timestamptz not null,
  recorded   timestamptz not null,
  waits      boolean not null default true,
  primary key (url, visit_type)
);
create index if not exists refused_visits_again_idx on scheduler_go.refused_visits (again) where waits;

comment on table scheduler_go.refused_visits is 'The last visit of each origin that its hoster refused: its failure doesn''t count, and the origin is visited again at a moment. Kept beyond that, as the journal may bring the failure later';
comment on column scheduler_go.refused_visits.ended is 'When it ended, by the worker''s clock, in seconds since 1970 UTC';
comment on column scheduler_go.refused_visits.again is 'When the origin may be visited again';
comment on column scheduler_go.refused_visits.recorded is 'When its end was received; the row is deleted some days after';
comment on column scheduler_go.refused_visits.waits is 'Whether the origin still waits for that';
