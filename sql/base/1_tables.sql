-- The Python scheduler's tables at schema version 38, as a new database gets them.
-- Names, types, defaults and constraints are the Python scheduler's: its own backend reads
-- and writes them. Nothing of ours belongs in here (see ../migrations).

-- Tasks: one-shot or recurring jobs, and each of their runs.

create type task_status as enum (
  'next_run_not_scheduled', 'next_run_scheduled', 'completed', 'disabled'
);
comment on type task_status is 'Where a task stands between two runs';

create type task_policy as enum ('recurring', 'oneshot');
comment on type task_policy is 'Whether a task runs again after it succeeded';

create type task_priority as enum ('high', 'normal', 'low');
comment on type task_priority is 'How urgent a task is; null where it has no priority';

create type task_run_status as enum (
  'scheduled', 'started', 'eventful', 'uneventful', 'failed', 'permfailed', 'lost'
);
comment on type task_run_status is 'How far one run of a task came, or how it ended';

create table task_type (
  type             text primary key,
  description      text not null,
  backend_name     text not null,
  default_interval interval,
  min_interval     interval,
  max_interval     interval,
  backoff_factor   double precision,
  max_queue_length bigint default 1000,
  num_retries      bigint,
  retry_delay      interval
);
comment on table task_type is 'Kinds of tasks that can be scheduled';
comment on column task_type.type is 'Short name of the kind of task';
comment on column task_type.description is 'What such a task does, for people';
comment on column task_type.backend_name is 'Name of the Celery task that runs it';
comment on column task_type.default_interval is 'Time between two runs of a new task';
comment on column task_type.min_interval is 'Shortest time between two runs';
comment on column task_type.max_interval is 'Longest time between two runs';
comment on column task_type.backoff_factor is 'The interval is divided by this after each successful run';
comment on column task_type.max_queue_length is 'How many messages may wait in the queue';
comment on column task_type.num_retries is 'How often a failed run is tried again';
comment on column task_type.retry_delay is 'Time to wait before such a try';

create table task (
  id               bigserial primary key,
  type             text not null references task_type (type),
  arguments        jsonb not null,
  next_run         timestamptz not null,
  current_interval interval,
  status           task_status not null,
  policy           task_policy not null default 'recurring',
  retries_left     bigint not null default 0,
  priority         task_priority,
  check (policy <> 'recurring' or current_interval is not null)
);
comment on table task is 'Tasks to run once or again and again';
comment on column task.id is 'Number of the task';
comment on column task.type is 'Kind of task (see task_type)';
comment on column task.arguments is 'Object with the keys args (a list) and kwargs (an object)';
comment on column task.next_run is 'Not to be run before this time';
comment on column task.current_interval is 'Time between two runs, as it stands after back-off';
comment on column task.status is 'Where the task stands';
comment on column task.policy is 'Once or again and again';
comment on column task.retries_left is 'How often a failed run may still be tried again';
comment on column task.priority is 'How urgent the task is';

create table task_run (
  id         bigserial primary key,
  task       bigint not null references task (id),
  backend_id text,
  scheduled  timestamptz,
  started    timestamptz,
  ended      timestamptz,
  metadata   jsonb,
  status     task_run_status not null default 'scheduled'
);
comment on table task_run is 'Runs of tasks that were sent to the workers';
comment on column task_run.id is 'Number of the run';
comment on column task_run.task is 'The task that ran (see task)';
comment on column task_run.backend_id is 'Celery''s id of the run';
comment on column task_run.scheduled is 'When it was sent';
comment on column task_run.started is 'When a worker took it';
comment on column task_run.ended is 'When it ended';
comment on column task_run.metadata is 'What the worker told of it';
comment on column task_run.status is 'How far it came, or how it ended';

-- Origins: what listers found, and what became of the visits.

create table listers (
  id                        uuid primary key default uuid_generate_v4(),
  name                      text not null,
  instance_name             text not null,
  created                   timestamptz not null default now(),
  current_state             jsonb not null,
  updated                   timestamptz not null,
  last_listing_finished_at  timestamptz,
  first_visits_queue_prefix text,
  first_visits_scheduled_at timestamptz
);
comment on table listers is 'Listers, one row for each instance';
comment on column listers.id is 'Identifier of the instance';
comment on column listers.name is 'Name of the lister, such as gitlab';
comment on column listers.instance_name is 'What it lists, such as the name of a forge';
comment on column listers.created is 'When the row was made';
comment on column listers.current_state is 'What the lister keeps between two listings';
comment on column listers.updated is 'When the row was last written; guards against stale writes';
comment on column listers.last_listing_finished_at is 'When its last listing ended';
comment on column listers.first_visits_queue_prefix is 'Prefix of the queues that take first visits ahead of others, if they do';
comment on column listers.first_visits_scheduled_at is 'When all such first visits had been sent';

create table listed_origins (
  lister_id              uuid not null references listers (id),
  url                    text not null,
  visit_type             text not null,
  extra_loader_arguments jsonb not null,
  enabled                boolean not null,
  first_seen             timestamptz not null default now(),
  last_seen              timestamptz not null,
  last_update            timestamptz,
  is_fork                boolean,
  forked_from_url        text,
  primary key (lister_id, url, visit_type)
);
comment on table listed_origins is 'Origins that listers found';
comment on column listed_origins.lister_id is 'The lister that found it (see listers)';
comment on column listed_origins.url is 'Where the origin is';
comment on column listed_origins.visit_type is 'Which kind of loader visits it';
comment on column listed_origins.extra_loader_arguments is 'Arguments for the loader besides the URL';
comment on column listed_origins.enabled is 'Whether it is to be visited: false once it is gone';
comment on column listed_origins.first_seen is 'When the lister found it first';
comment on column listed_origins.last_seen is 'When the lister found it last';
comment on column listed_origins.last_update is 'When it last changed, if the forge tells';
comment on column listed_origins.is_fork is 'Whether it is a fork, if the forge tells';
comment on column listed_origins.forked_from_url is 'What it was forked from, if the forge tells';

create type last_visit_status as enum ('successful', 'failed', 'not_found');
comment on type last_visit_status is 'How the last visit of an origin ended';

create table origin_visit_stats (
  url                       text not null,
  visit_type                text not null,
  last_successful           timestamptz,
  last_visit                timestamptz,
  last_visit_status         last_visit_status,
  last_scheduled            timestamptz,
  last_snapshot             bytea,
  next_visit_queue_position bigint,
  next_position_offset      integer not null default 4,
  successive_visits         integer not null default 1,
  primary key (url, visit_type)
);
comment on table origin_visit_stats is 'What is known of the visits of each origin';
comment on column origin_visit_stats.url is 'Where the origin is';
comment on column origin_visit_stats.visit_type is 'Which kind of loader visits it';
comment on column origin_visit_stats.last_successful is 'When a visit last succeeded';
comment on column origin_visit_stats.last_visit is 'When it was last visited, whatever came of it';
comment on column origin_visit_stats.last_visit_status is 'How that visit ended';
comment on column origin_visit_stats.last_scheduled is 'When a visit was last sent to the workers';
comment on column origin_visit_stats.last_snapshot is 'Identifier (20 bytes) of the snapshot the last successful visit made';
comment on column origin_visit_stats.next_visit_queue_position is 'Where it stands in the queue of its visit type: new content is expected there';
comment on column origin_visit_stats.next_position_offset is 'Index in the list of intervals between visits';
comment on column origin_visit_stats.successive_visits is 'How many visits in a row ended with this status';

create table visit_scheduler_queue_position (
  visit_type text not null,
  position   bigint not null,
  primary key (visit_type)
);
comment on table visit_scheduler_queue_position is 'How far the queue of each visit type has been worked through';
comment on column visit_scheduler_queue_position.visit_type is 'Visit type';
comment on column visit_scheduler_queue_position.position is 'Greatest position that was scheduled';

create table scheduler_metrics (
  lister_id                    uuid not null references listers (id),
  visit_type                   text not null,
  last_update                  timestamptz not null,
  origins_known                integer not null default 0,
  origins_enabled              integer not null default 0,
  origins_never_visited        integer not null default 0,
  origins_with_pending_changes integer not null default 0,
  primary key (lister_id, visit_type)
);
comment on table scheduler_metrics is 'Counts of origins for each lister and visit type, refreshed by update_metrics';
comment on column scheduler_metrics.lister_id is 'The lister (see listers)';
comment on column scheduler_metrics.visit_type is 'Visit type';
comment on column scheduler_metrics.last_update is 'When the counts were made';
comment on column scheduler_metrics.origins_known is 'All its origins';
comment on column scheduler_metrics.origins_enabled is 'Those still there';
comment on column scheduler_metrics.origins_never_visited is 'Those still there without a snapshot';
comment on column scheduler_metrics.origins_with_pending_changes is 'Those still there that changed after their last successful visit';

-- What the Python scheduler's "swh db" commands look at.

create table dbversion (
  version     integer primary key,
  release     timestamptz,
  description text
);
comment on table dbversion is 'Versions the schema went through; the greatest is the present one';
comment on column dbversion.version is 'Version of the schema';
comment on column dbversion.release is 'When the database got it';
comment on column dbversion.description is 'How the database got it';

create table dbmodule (
  dbmodule   text,
  single_row char(1) primary key default 'x',
  check (single_row = 'x')
);
comment on table dbmodule is 'Which part of Software Heritage the database belongs to';
comment on column dbmodule.dbmodule is 'Module and backend class';
comment on column dbmodule.single_row is 'Always x, so that there is one row at most';
