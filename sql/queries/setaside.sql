-- Tasks and origins that no claim takes, because they cannot be sent as they are.

-- SetOriginAside sets an origin aside for all its listers. The caller then removes its candidate.
-- name: SetOriginAside :exec
insert into scheduler_go.set_aside_origins (lister_id, url, visit_type, content, reason)
select lo.lister_id, lo.url, lo.visit_type, scheduler_go.origin_content(lo.extra_loader_arguments, lo.first_seen, lo.last_seen, lo.last_update), @reason
from listed_origins lo
where lo.url = @url and lo.visit_type = @visit_type
on conflict do nothing;

-- NextCandidateChange returns the origin whose change DrainCandidates takes next.
-- name: NextCandidateChange :one
select coalesce(scheduler_go.next_candidate_change(@visit_type), '')::text;

-- DropCandidateChanges deletes the changes of an origin.
-- name: DropCandidateChanges :execrows
delete from scheduler_go.candidate_changes where visit_type = @visit_type and url = @url;

-- SetGraphTaskAside removes the next check of a graph's task and sets the task aside. The maintenance job
-- of graphs checks the task again.
-- name: SetGraphTaskAside :exec
with taken as (
  delete from scheduler_go.graph_checks
  where ctid = (select ctid from scheduler_go.graph_checks
                where place >= (select graphs_low from scheduler_go.low_water) order by place limit 1)
  returning task
)
insert into scheduler_go.set_aside_tasks (task, arguments, reason, until)
select t.id, md5(t.arguments::text), @reason, now() + interval '10 minutes'
from taken join task t on t.id = taken.task
on conflict do nothing;

-- RetryTasks takes back the tasks whose arguments have changed or whose time has passed.
-- name: RetryTasks :exec
delete from scheduler_go.set_aside_tasks s
where s.until <= now()
   or not exists (select from task t where t.id = s.task and md5(t.arguments::text) = s.arguments);

-- RetryOrigins takes back the origins that have changed or whose time has passed.
-- name: RetryOrigins :exec
delete from scheduler_go.set_aside_origins s
where s.until <= now()
   or not exists (
     select from listed_origins lo
     where lo.lister_id = s.lister_id and lo.url = s.url and lo.visit_type = s.visit_type
       and scheduler_go.origin_content(lo.extra_loader_arguments, lo.first_seen, lo.last_seen, lo.last_update) = s.content);

-- NewlySetAsideTasks returns tasks that were set aside, each once.
-- name: NewlySetAsideTasks :many
update scheduler_go.set_aside_tasks s set told = true
where s.task = any(array(select task from scheduler_go.set_aside_tasks where not told limit @max_rows::bigint for update skip locked))
returning s.task, s.reason;

-- NewlySetAsideOrigins returns origins that were set aside, each once.
-- name: NewlySetAsideOrigins :many
update scheduler_go.set_aside_origins s set told = true
from (select lister_id, url, visit_type from scheduler_go.set_aside_origins where not told limit @max_rows::bigint for update skip locked) n
where s.lister_id = n.lister_id and s.url = n.url and s.visit_type = n.visit_type
returning s.url, s.visit_type, s.reason;

-- CountSetAside counts the tasks and origins set aside, each up to a bound.
-- name: CountSetAside :one
select (select count(*) from (select from scheduler_go.set_aside_tasks limit @bound::bigint) t) as tasks,
       (select count(*) from (select from scheduler_go.set_aside_origins limit @bound::bigint) o) as origins;

-- SetAsideTask returns the reason why a task is set aside; no row if it isn't.
-- name: SetAsideTask :many
select reason, since, until from scheduler_go.set_aside_tasks where task = @task;

-- SetAsideOrigins returns the reasons why an origin is set aside, by lister and visit type.
-- name: SetAsideOrigins :many
select s.visit_type, l.name as lister, l.instance_name, s.reason, s.since, s.until
from scheduler_go.set_aside_origins s join listers l on l.id = s.lister_id
where s.url = @url
order by s.visit_type, l.name, l.instance_name;
