-- +goose Up
-- Visits of hosters with a limit by refusals are spread over the mean duration of a visit.
alter table scheduler_go.refusing_hosters add column if not exists seconds double precision not null default 0;
alter table scheduler_go.refusing_hosters add column if not exists ended integer not null default 0;
alter table scheduler_go.hoster_claims add column if not exists paced timestamptz;

comment on column scheduler_go.refusing_hosters.score is 'Refusals, less one for each 200 successes';
comment on column scheduler_go.refusing_hosters.seconds is 'Mean time from the claim to the end of visits that succeeded';
comment on column scheduler_go.refusing_hosters.ended is 'Number of visits in that mean';
comment on column scheduler_go.hoster_claims.paced is 'Up to when the claims use the pace of a hoster that refused visits; null without one';
