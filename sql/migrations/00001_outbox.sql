-- +goose Up
create table scheduler_go.outbox (
  id         bigint generated always as identity primary key,
  queue      text not null,
  task_id    uuid not null,
  task_name  text not null,
  args       json not null,
  kwargs     json not null,
  urgent     boolean not null default false,
  created_at timestamptz not null default now(),
  not_before timestamptz not null default '-infinity',
  attempts   integer not null default 0,
  last_error text
);
create index outbox_queue_idx on scheduler_go.outbox (queue);
create index outbox_next_idx on scheduler_go.outbox (urgent desc, id);

comment on table scheduler_go.outbox is 'Messages claimed and not yet confirmed by the broker';
comment on column scheduler_go.outbox.queue is 'Routing key on the default exchange';
comment on column scheduler_go.outbox.task_id is 'Celery''s id of the task: the same each time the row is sent';
comment on column scheduler_go.outbox.task_name is 'Name of the Celery task';
comment on column scheduler_go.outbox.args is 'Positional arguments; json keeps the order of keys and the form of numbers, jsonb would not';
comment on column scheduler_go.outbox.kwargs is 'Keyword arguments';
comment on column scheduler_go.outbox.urgent is 'Sent before what is not urgent: save code now does not wait behind a large claim';
comment on column scheduler_go.outbox.created_at is 'When it was claimed';
comment on column scheduler_go.outbox.not_before is 'Put off until then';
comment on column scheduler_go.outbox.attempts is 'How often sending it failed';
comment on column scheduler_go.outbox.last_error is 'Why the last attempt failed';

create table scheduler_go.deliveries (
  queue        text not null,
  delivered_at timestamptz not null,
  messages     integer not null
);
create index deliveries_queue_idx on scheduler_go.deliveries (queue, delivered_at);

comment on table scheduler_go.deliveries is 'What the broker confirmed in the last minute, which its statistics may not show yet';
comment on column scheduler_go.deliveries.queue is 'Routing key on the default exchange';
comment on column scheduler_go.deliveries.delivered_at is 'When the confirms were written here';
comment on column scheduler_go.deliveries.messages is 'How many messages one batch delivered';

-- +goose Down
drop table scheduler_go.deliveries;
drop table scheduler_go.outbox;
