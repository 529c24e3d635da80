-- +goose Up
-- Figures over time that nothing else keeps: how long queues are, what origins lack, and so on.
create table if not exists scheduler_go.figures (
  span    text not null check (span in ('five', 'hour', 'day')),
  figure  text not null,
  name    text not null,
  part    text not null,
  since   timestamptz not null,
  samples bigint not null,
  sums    double precision[] not null,
  primary key (span, figure, name, part, since)
);
create index if not exists figures_since_idx on scheduler_go.figures (span, since);

comment on table scheduler_go.figures is 'Figures over time, as sampled every five minutes: five minutes of the last three hours, hours of 30 days, days of two years';
comment on column scheduler_go.figures.span is 'How long the row''s time is: five (minutes), hour or day; each of the three counts the same samples';
comment on column scheduler_go.figures.figure is 'What is sampled: queue, share, origins, pools, staleness, visits. A row with an empty name counts the samples: what has no row beside it was zero';
comment on column scheduler_go.figures.name is 'Of which queue or visit type';
comment on column scheduler_go.figures.part is 'Of which group of the queue; otherwise empty';
comment on column scheduler_go.figures.since is 'When the time began, in UTC';
comment on column scheduler_go.figures.sums is 'The sums of the values of all samples, in an order by figure (sql/db/figures.go); NaN: one was not known';
