-- Failures, and running work.

-- RecordFailures records failures, those of loads with their origins. It must precede DropWork.
-- name: RecordFailures :exec
insert into scheduler_go.failures (at, type, exception, message, worker, task, visit_type, url)
select f.at, f.type, f.exception, f.message, f.worker, nullif(f.task, 0), nullif(f.visit_type, ''),
       case when f.visit_type <> '' then left(coalesce(w.url, case when w.kwargs::text not like '%\\u0000%' then w.kwargs ->> 'url' end, t.arguments -> 'kwargs' ->> 'url'), 2000) end
from (select unnest(@at::timestamptz[]) as at, unnest(@type::text[]) as type, unnest(@exception::text[]) as exception, unnest(@message::text[]) as message,
             unnest(@worker::text[]) as worker, unnest(@task::bigint[]) as task, unnest(@visit_type::text[]) as visit_type, unnest(@work::uuid[]) as work) f
left join scheduler_go.work w on w.task_id = f.work
left join public.task t on t.id = f.task;

-- ForgetFailures deletes old failures, those beyond a bound per type and exception, and those beyond a
-- bound in all.
-- name: ForgetFailures :exec
delete from scheduler_go.failures f
using (select l.type, l.exception, l.below, a.below as all_below
       from (select n.type, n.exception, coalesce((select o.id from scheduler_go.failures o where o.type = n.type and o.exception = n.exception order by o.id desc offset @most_of_a_kind limit 1), 0) as below
             from (select distinct k.type, k.exception from scheduler_go.failures k) n) l,
            (select max(m.id) - @most::bigint as below from scheduler_go.failures m) a) b
where f.type = b.type and f.exception = b.exception and (f.id <= b.below or f.id <= b.all_below or f.at < now() - interval '30 days');

-- LastFailures returns the last failures of a type with an exception.
-- name: LastFailures :many
select * from scheduler_go.failures where type = @type::text and exception = @exception::text order by id desc limit @most;

-- SampleFailures returns the last failure for each of the types and exceptions.
-- name: SampleFailures :many
select f.* from (select unnest(@type::text[]) as type, unnest(@exception::text[]) as exception) k
cross join lateral (select * from scheduler_go.failures o where o.type = k.type and o.exception = k.exception order by o.id desc limit 1) f;

-- FailuresOfOrigin returns the last failures of an origin's loads.
-- name: FailuresOfOrigin :many
select * from scheduler_go.failures where url is not null and hashtextextended(url, 0) = hashtextextended(@url::text, 0) and url = @url::text order by id desc limit @most;

-- AddRunning adds the runs that have started and not ended, among those whose first start event arrived in
-- a span of time.
-- name: AddRunning :exec
insert into scheduler_go.running as n (run, task, type, started, worker)
select s.run, r.task, t.type, r.started, s.worker
from scheduler_go.run_starts s
cross join lateral (select o.task, o.started from public.task_run o where o.id = s.run and o.status = 'started' and o.started is not null offset 0) r
cross join lateral (select k.type from public.task k where k.id = r.task offset 0) t
where s.recorded >= @from_time and s.recorded < @to_time
on conflict (run) do update set started = excluded.started, worker = excluded.worker where n.started <> excluded.started or n.worker <> excluded.worker;

-- DropRunning deletes runs that have ended or are deleted.
-- name: DropRunning :exec
delete from scheduler_go.running n where not exists (select from public.task_run r where r.id = n.run and r.status = 'started');

-- RunningRuns lists running runs, the oldest first, of a type or of all (''). It reads the oldest @looked
-- rows and leaves out runs that have ended since.
-- name: RunningRuns :many
select n.run, n.task, n.type, r.started::timestamptz as started, n.worker, r.backend_id::text as backend_id, t.arguments::text as arguments
from (select * from scheduler_go.running l where l.type = @type::text or @type::text = '' order by l.started, l.run limit @looked) n
cross join lateral (select o.started, coalesce(o.backend_id, '') as backend_id from public.task_run o where o.id = n.run and o.status = 'started' offset 0) r
cross join lateral (select left(k.arguments::text, 300) as arguments from public.task k where k.id = n.task offset 0) t
order by n.started, n.run limit @most;

-- RunningByType counts the running runs.
-- name: RunningByType :many
select type, count(*) as runs from scheduler_go.running group by type;

-- RunningVisits lists the running visits of groups, lanes and hosters, the oldest first, of a task name or
-- of all (''). It reads the oldest @looked such messages, and looks up one by one whether they belong to
-- runs.
-- name: RunningVisits :many
select w.task_id, w.task_name, to_timestamp(w.started)::timestamptz as started, w.queue, coalesce(w.url, case when w.kwargs::text not like '%\\u0000%' then w.kwargs ->> 'url' end, '')::text as url
from (select * from scheduler_go.work k where k.state = 'sent' and k.started is not null and (k.task_name = @task_name::text or @task_name::text = '')
      order by k.started, k.task_id limit @looked) w
where (select count(*) from (select from public.task_run r where r.backend_id = w.task_id::text limit 1) o) = 0
order by w.started, w.task_id limit @most;

-- SlowestRuns lists the slowest of a type's last runs that succeeded since a moment, the slowest first.
-- name: SlowestRuns :many
select d.run, coalesce(r.task, 0)::bigint as task, d.runtime, d.recorded
from (select * from (select * from scheduler_go.run_durations l where l.type = @type::text and l.recorded >= @since order by l.recorded desc limit @looked) s
      order by s.runtime desc, s.run limit @most) d
left join public.task_run r on r.id = d.run
order by d.runtime desc, d.run;
