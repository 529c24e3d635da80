-- The Python scheduler's indexes at schema version 38, under the names they have in a
-- database that the Python scheduler made.

create index task_type_idx on task (type);
create index task_next_run_idx on task (next_run);
create index task_type_md5_idx on task (type, md5(arguments::text)); -- finds equal tasks
create index task_priority_idx on task (priority);
create index task_type_next_run_idx on task (type, next_run)
  where status = 'next_run_not_scheduled'; -- finds ready tasks

create index task_run_task_idx on task_run (task);
create index task_run_backend_id_idx on task_run (backend_id);
create index task_run_id_asc_idx on task_run (task, started);

create unique index listers_name_instance_name_idx on listers (name, instance_name);
create index listed_origins_url_visit_type_idx on listed_origins (url, visit_type);
create index origin_visit_stats_url_visit_type_idx on origin_visit_stats (url, visit_type);
