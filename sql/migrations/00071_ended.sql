-- +goose Up
-- Work whose end was heard of before how long it took: results are sent by a worker's
-- child, and overtake the events that its parent sends, which tell that.

create table scheduler_go.share_ended (
  task_id     uuid primary key,
  queue       text not null,
  share_group text not null,
  charged     double precision not null,
  heard       timestamptz not null
);
create index share_ended_heard_idx on scheduler_go.share_ended (heard);

comment on table scheduler_go.share_ended is 'Work of shared queues that was charged as it was expected; what it took will correct that';
comment on column scheduler_go.share_ended.task_id is 'Celery''s id of the task';
comment on column scheduler_go.share_ended.charged is 'Seconds';
comment on column scheduler_go.share_ended.heard is 'When its end was heard of, by which rows are forgotten';

create table scheduler_go.lane_ended (
  task_id   uuid primary key,
  line      text not null,
  lane_name text not null,
  memory    bigint not null,
  lister    text not null,
  first     boolean not null,
  behind    double precision not null,
  below     double precision,
  claimed   timestamptz,
  heard     timestamptz not null
);
create index lane_ended_heard_idx on scheduler_go.lane_ended (heard);

comment on table scheduler_go.lane_ended is 'Work of lanes that ended in its time; what it took, and when it began, is still to be learnt. The columns are those of lane_work';
comment on column scheduler_go.lane_ended.claimed is 'Null once its wait has been recorded, or if it was not its first try';
comment on column scheduler_go.lane_ended.heard is 'When its end was heard of, by which rows are forgotten';

-- +goose Down
drop table scheduler_go.lane_ended;
drop table scheduler_go.share_ended;
