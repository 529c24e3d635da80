-- +goose Up
-- Journal records that could not be understood or stored: enough to find them
-- again in Kafka. Only the latest 10,000 are kept.
create table scheduler_go.rejected_records (
  id            bigint generated always as identity primary key,
  topic         text not null,
  partition     integer not null,
  record_offset bigint not null,
  kind          text not null,
  detail        text not null,
  rejected_at   timestamptz not null default now(),
  unique (topic, partition, record_offset)
);

-- +goose Down
drop table scheduler_go.rejected_records;
