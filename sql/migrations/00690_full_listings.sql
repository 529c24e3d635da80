-- +goose Up
-- Full listings, and the origins that are disabled because such a listing lacks them.
create table if not exists scheduler_go.full_listings (
  lister_id        uuid primary key,
  examined         bigint not null default 0,
  doubt            text not null default '',
  cutoffs          timestamptz[] not null default '{}',
  run              bigint,
  ended            timestamptz,
  cutoff           timestamptz,
  state            text not null default 'none' check (state in ('none', 'counting', 'held', 'disabling', 'done', 'dismissed')),
  after_url        text not null default '',
  after_visit_type text not null default '',
  enabled          bigint not null default 0,
  missing          bigint not null default 0,
  allowed          bigint not null default 0,
  disabled         bigint not null default 0,
  decided          timestamptz,
  gone             bigint not null default 0,
  back             bigint not null default 0
);

comment on table scheduler_go.full_listings is 'The last full listing of each instance of a lister with a rule in gone_origins, and what became of the origins that it lacks';
comment on column scheduler_go.full_listings.examined is 'task_run.id of the newest run that was examined; older ones are not examined any more';
comment on column scheduler_go.full_listings.doubt is 'Why that run does not count as a full listing; empty if it does';
comment on column scheduler_go.full_listings.cutoffs is 'Of the last full listings, the newest first: an origin last seen before was not in it';
comment on column scheduler_go.full_listings.run is 'task_run.id of the last full listing; null: there was none yet';
comment on column scheduler_go.full_listings.ended is 'When it ended';
comment on column scheduler_go.full_listings.cutoff is 'An origin last seen before is missing: the cutoff of as many listings in a row as the rule says; null: there were not that many';
comment on column scheduler_go.full_listings.state is 'counting: its origins are counted; held: an operator decides; disabling: missing origins are disabled; done; dismissed: an operator left them enabled';
comment on column scheduler_go.full_listings.after_url is 'Where the count, or the disabling, goes on';
comment on column scheduler_go.full_listings.after_visit_type is 'Visit type of that origin';
comment on column scheduler_go.full_listings.enabled is 'How many enabled origins were counted';
comment on column scheduler_go.full_listings.missing is 'How many of them are missing';
comment on column scheduler_go.full_listings.allowed is 'How many may go at once';
comment on column scheduler_go.full_listings.disabled is 'How many this listing has disabled';
comment on column scheduler_go.full_listings.decided is 'When the count ended, or an operator decided';
comment on column scheduler_go.full_listings.gone is 'How many origins all listings have disabled';
comment on column scheduler_go.full_listings.back is 'How many of them were listed again, as far as a maintenance job has looked';

create table if not exists scheduler_go.gone_origins (
  id         bigint generated always as identity unique,
  lister_id  uuid not null,
  url        text not null,
  visit_type text not null,
  ended      timestamptz not null,
  disabled   timestamptz not null default now(),
  primary key (lister_id, url, visit_type)
);

comment on table scheduler_go.gone_origins is 'Origins that are disabled because a full listing lacks them; the row is deleted some minutes after they are listed again';
comment on column scheduler_go.gone_origins.id is 'The order in which they were disabled';
comment on column scheduler_go.gone_origins.ended is 'When the listing ended';
comment on column scheduler_go.gone_origins.disabled is 'When they were disabled';
