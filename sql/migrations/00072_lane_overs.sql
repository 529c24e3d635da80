-- +goose Up
-- When the time of each origin's visit was last over is remembered beyond the visit's
-- end: the journal may tell of it later than that.
create table scheduler_go.lane_overs (
  url        text not null,
  visit_type text not null,
  claimed    timestamptz not null,
  over       double precision not null,
  recorded   timestamptz not null,
  primary key (url, visit_type)
) with (fillfactor = 90);

comment on table scheduler_go.lane_overs is 'The last visit of each origin whose time on a lane was over, and that went on in the next one';
comment on column scheduler_go.lane_overs.claimed is 'When the visit was claimed';
comment on column scheduler_go.lane_overs.over is 'When its time was over, on the worker''s clock, seconds since 1970 UTC';
comment on column scheduler_go.lane_overs.recorded is 'When that was heard of, by which rows are forgotten';

insert into scheduler_go.lane_overs (url, visit_type, claimed, over, recorded)
select url, visit_type, min(claimed), max(over), now()
from scheduler_go.lane_work where over is not null and url is not null
group by url, visit_type;

alter table scheduler_go.lane_work drop column over;

-- +goose Down
alter table scheduler_go.lane_work add column over double precision;
comment on column scheduler_go.lane_work.over is 'When the time of the try before was over, on the worker''s clock, seconds since 1970 UTC';
drop table scheduler_go.lane_overs;
