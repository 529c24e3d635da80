-- +goose Up
-- Work of hosters that take a limited number of visits is kept until its end is heard.
alter table scheduler_go.work add column hosters text[];
alter table scheduler_go.work
  drop constraint work_check2,
  add constraint work_kept_check check (state in ('outgoing', 'settled') or share_group is not null or lane_set is not null or hosters is not null);
create index work_hosters_idx on scheduler_go.work (claimed) where hosters is not null and state <> 'settled';
comment on column scheduler_go.work.hosters is 'Hosters with a limit for whose limits it counts: the instance of its lister (name/instance), the host of its origin; null: none';

create table scheduler_go.hoster_claims (
  hoster  text not null,
  claimed timestamptz not null,
  visits  integer not null
);
create index hoster_claims_idx on scheduler_go.hoster_claims (claimed);
comment on table scheduler_go.hoster_claims is 'How many visits of hosters with a limit were claimed in the last minute';
