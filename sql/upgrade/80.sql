-- Takes a database from version 80 of the migrations, the last before those that are
-- here now, to 190. The program has made work and keeper before, from their migrations,
-- and takes the comments of everything from the migrations after.

-- What was in flight was in five tables. Nothing may be added to them any more.
lock table scheduler_go.outbox, scheduler_go.in_flight, scheduler_go.lane_work,
  scheduler_go.share_ended, scheduler_go.lane_ended;

insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, urgent, root_id, claimed, since, started,
  not_before, attempts, last_error, share_group, cost,
  lane_set, lane, lane_name, lanes_left, soft_limit, hard_limit, timed_out, below, memory, lister, first, behind, visit_type, url)
select coalesce(o.task_id, w.task_id, f.task_id),
       case when not w.sent then 'backlog' when o.task_id is not null then 'outgoing' else 'sent' end,
       coalesce(o.queue, w.queue, f.queue), coalesce(f.queue, case when w.task_id is not null then coalesce(t.backend_name, w.queue) end),
       coalesce(o.task_name, w.task_name, ''), coalesce(o.args, w.args, '[]'), coalesce(o.kwargs, w.kwargs, '{}'),
       coalesce(o.urgent, w.urgent, false), coalesce(o.root_id, case when w.timed_out > 0 then w.root_id end),
       coalesce(w.claimed, f.claimed, o.created_at), coalesce(w.since, f.claimed), coalesce(w.started, f.started),
       coalesce(o.not_before, '-infinity'), coalesce(o.attempts, 0), o.last_error, f.share_group, f.cost,
       w.line, w.lane, w.lane_name, coalesce(w.lanes_left, 0), coalesce(o.soft_time_limit, w.soft_limit), coalesce(o.time_limit, w.hard_limit),
       coalesce(w.timed_out, 0), w.below, w.memory, w.lister, w.first, w.behind, w.visit_type, w.url
from scheduler_go.outbox o
full join scheduler_go.lane_work w on w.task_id = o.task_id
full join scheduler_go.in_flight f on f.task_id = coalesce(o.task_id, w.task_id)
left join task_type t on w.sent and w.line in (t.type, 'save_code_now:' || t.type)
order by o.id nulls last, w.place;

-- Of work that has ended, only what is still to be learnt of it matters.
insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, claimed, since, settled, share_group, cost,
  lane_set, lane, lane_name, below, memory, lister, first, behind, timed_out)
select coalesce(l.task_id, s.task_id), 'settled', coalesce(s.queue, ''), coalesce(s.queue, ''), '', '[]', '{}',
       coalesce(l.claimed, s.heard, l.heard), coalesce(s.heard, l.heard), coalesce(s.heard, l.heard), s.share_group, s.charged,
       l.line, case when l.line is not null then 0 end, l.lane_name, l.below, l.memory, l.lister, l.first, l.behind,
       case when l.line is not null and l.claimed is null then 1 else 0 end
from scheduler_go.lane_ended l full join scheduler_go.share_ended s on s.task_id = l.task_id
on conflict do nothing;

drop table scheduler_go.outbox, scheduler_go.in_flight, scheduler_go.lane_work,
  scheduler_go.share_ended, scheduler_go.lane_ended;
alter table scheduler_go.lane_overs rename to lane_timeouts;
alter table scheduler_go.lane_timeouts rename constraint lane_overs_pkey to lane_timeouts_pkey;
alter table scheduler_go.lane_timeouts rename column over to timed_out;
alter table scheduler_go.lane_history rename column line to lane_set;
alter table scheduler_go.lane_sketches rename column line to lane_set;

delete from scheduler_go.migrations where version_id > 0;
insert into scheduler_go.migrations (version_id, is_applied)
select version, true from generate_series(100, 190, 10) version;
