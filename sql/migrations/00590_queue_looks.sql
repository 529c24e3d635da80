-- +goose Up
-- When work was seen to have left its queue. What is not known to have begun is given up some time after that,
-- and not after it was sent: it may have waited in its queue until then.
create table if not exists scheduler_go.queue_looks (
  queue       text not null,
  kept        boolean not null,
  looked      timestamptz not null,
  sent_before timestamptz not null,
  primary key (queue, kept, looked)
);

comment on table scheduler_go.queue_looks is 'Looks at queues that found work out of them whose start was not known; deleted when a later one counts';
comment on column scheduler_go.queue_looks.kept is 'Whether the look says it of work in the ledger only; otherwise of every message: the queue was empty';
comment on column scheduler_go.queue_looks.looked is 'When somebody looked';
comment on column scheduler_go.queue_looks.sent_before is 'All that was sent to the queue before this moment had left it by then';
