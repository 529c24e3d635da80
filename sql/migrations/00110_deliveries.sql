-- +goose Up
create table scheduler_go.deliveries (
  queue        text not null,
  delivered_at timestamptz not null,
  messages     integer not null
);
create index deliveries_queue_idx on scheduler_go.deliveries (queue, delivered_at);

comment on table scheduler_go.deliveries is 'Messages that the broker confirmed in the last minute, which its own figures may not count yet';
comment on column scheduler_go.deliveries.queue is 'Their queue (routing key on the default exchange)';
comment on column scheduler_go.deliveries.delivered_at is 'When the confirms of the batch were written here';
comment on column scheduler_go.deliveries.messages is 'How many messages the batch brought to the queue';
