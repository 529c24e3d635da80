-- +goose Up
alter table scheduler_go.work add column priority smallint not null default 0 check (priority between 0 and 255);
comment on column scheduler_go.work.priority is 'Priority of the message, which RabbitMQ heeds in queues with x-max-priority';
