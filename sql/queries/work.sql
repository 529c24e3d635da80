-- The ledger of work, and recent deliveries.

-- LockQueues takes the advisory locks of queues, in the given order, which must be sorted. It returns the
-- time of the request and the time of each lock. A session with our time limit for idle transactions
-- (sql/postgres/sockets.go) gets a shorter limit for this transaction: a stopped process with a queue's
-- lock blocks all claims for the queue.
-- name: LockQueues :many
select statement_timestamp()::timestamptz as asked,
       case when pg_advisory_xact_lock(hashtextextended('swh-scheduler queue ' || queue, 0))::text = '' then clock_timestamp() end::timestamptz as locked
from unnest(@queues::text[]) queue,
     (select set_config(name, case current_setting(name) when '30s' then '10s' else current_setting(name) end, true)
      from (values ('idle_in_transaction_session_timeout')) setting (name)) idle;

-- QueueLedgers counts the outgoing messages of each queue, and the confirmed ones in two spans. The first
-- is from the earliest moment of the broker's statistics to the question to the broker, the second from
-- there on. Deliveries of the future are from before the database's clock was set back.
-- name: QueueLedgers :many
select q.queue::text as queue,
  scheduler_go.outgoing_of(q.queue)::bigint as outgoing,
  d.before::bigint as before, d.after::bigint as after
from (select unnest(@queues::text[]) as queue, unnest(@since::timestamptz[]) as since, unnest(@asked::timestamptz[]) as asked,
             generate_subscripts(@queues::text[], 1) as place) q
cross join lateral (
  select coalesce(sum(d.messages) filter (where d.delivered_at < q.asked), 0) as before,
         coalesce(sum(d.messages) filter (where d.delivered_at >= q.asked), 0) as after
  from scheduler_go.deliveries d where d.queue = q.queue and d.delivered_at >= q.since and d.delivered_at <= statement_timestamp() + interval '1 minute'
) d
order by q.place;

-- SentMessages counts the sent work of a queue.
-- name: SentMessages :one
select count(*) from scheduler_go.work where state = 'sent' and queue = @queue::text;

-- OutgoingDue counts the due outgoing messages, urgent ones or the others. It leaves out queues that can't
-- be sent to now: some of their messages wait.
-- name: OutgoingDue :one
select scheduler_go.outgoing_due(@urgent);

-- NextOutgoing locks the next messages to send, of the urgent ones or of the others. It skips some queues
-- and rows, and rows that another deliverer or a listener has locked. Its lock is compatible with the
-- journal client's key share locks.
-- name: NextOutgoing :many
select task_id, queue, root_id, task_name, args, kwargs, hard_limit, soft_limit, attempts, claimed,
       (share_group is not null or lane_set is not null or hosters is not null)::boolean as kept, home, priority,
       statement_timestamp()::timestamptz as until
from scheduler_go.work
where state = 'outgoing' and urgent = @urgent and place >= (select low from scheduler_go.low_water)
  and not_before <= statement_timestamp() and queue <> all(@skip::text[]) and task_id <> all(@skip_rows::uuid[])
order by place
limit @max_rows
for no key update skip locked;

-- LockOutgoing locks outgoing messages. It skips those that another deliverer or a listener has locked.
-- name: LockOutgoing :many
select task_id from scheduler_go.work
where task_id = any(@task_ids::uuid[]) and case state when 'outgoing' then true end
order by place
for no key update skip locked;

-- LowestOverduePriorities returns the queues with work of groups that no worker had begun some seconds after it was
-- sent, by the moment up to which starts are known. It returns the lowest priority of that work by queue.
-- name: LowestOverduePriorities :many
select queue, min(priority)::smallint as priority
from scheduler_go.work
where home = any(@homes::text[]) and share_group is not null and state = 'sent' and started is null
  and since < (select scheduler_go.ends_known(@now)) - make_interval(secs => @ageing::double precision)
group by queue;

-- RaiseLowWater raises the places from which scans begin: of outgoing work in the three statements above,
-- of candidates' changes in drains and grabs, of graphs' changes in drains. It does so at the second call
-- after one of them got @step more places.
-- name: RaiseLowWater :exec
select scheduler_go.raise_low_water(@step);

-- LowerLowWater lowers these places to the first outgoing work and the first changes, if those are below.
-- name: LowerLowWater :execrows
update scheduler_go.low_water l
set low = least(l.low, o.place), changes_low = least(l.changes_low, c.place), graphs_low = least(l.graphs_low, g.place)
from (select min(w.place) as place from scheduler_go.work w where w.state = 'outgoing') o,
     (select min(n.place) as place from scheduler_go.candidate_changes n) c,
     (select least((select min(place) from scheduler_go.graph_changes), (select min(place) from scheduler_go.graph_checks)) as place) g
where o.place < l.low or c.place < l.changes_low or g.place < l.graphs_low;

-- name: DropWork :exec
delete from scheduler_go.work where task_id = any(@task_ids::uuid[]);

-- MarkSent and the next two statements find messages by id: their condition on the state matches no index,
-- as the index of outgoing work may be full of dead entries. since moves on, as the broker may have refused
-- a message for hours.
-- name: MarkSent :exec
update scheduler_go.work set state = 'sent', since = greatest(since, statement_timestamp()) where task_id = any(@task_ids::uuid[]) and case state when 'outgoing' then true end;

-- BackOffWork delays messages that the broker refused. Like LeaseOutgoing it skips messages whose
-- not_before is later than the caller read: another deliverer has them.
-- name: BackOffWork :exec
update scheduler_go.work
set attempts = attempts + 1, last_error = @reason::text, not_before = statement_timestamp() + make_interval(secs => @seconds::double precision)
where task_id = any(@task_ids::uuid[]) and not_before <= (@untils::timestamptz[])[array_position(@task_ids::uuid[], task_id)]
  and case state when 'outgoing' then true end;

-- LeaseOutgoing keeps messages from being sent for some seconds; 0 ends the lease.
-- name: LeaseOutgoing :many
update scheduler_go.work
set not_before = statement_timestamp() + make_interval(secs => @seconds::double precision)
where task_id = any(@task_ids::uuid[]) and not_before <= (@untils::timestamptz[])[array_position(@task_ids::uuid[], task_id)]
  and case state when 'outgoing' then true end
returning array_position(@task_ids::uuid[], task_id)::integer as place, not_before;

-- RecordDeliveries records the number of confirmed messages by queue. It deletes rows that became old since the
-- last minutes, so that it doesn't read dead ones; ForgetDeliveries deletes the others. The date is by the
-- database's clock, after the broker's confirmation.
-- name: RecordDeliveries :exec
with forgotten as (
  delete from scheduler_go.deliveries old
  where old.queue = any(@queues::text[])
    and old.delivered_at < statement_timestamp() - make_interval(secs => @kept::double precision)
    and old.delivered_at >= statement_timestamp() - 2 * make_interval(secs => @kept::double precision)
)
insert into scheduler_go.deliveries (queue, delivered_at, messages)
select unnest(@queues::text[]), statement_timestamp(), unnest(@messages::integer[]);

-- ForgetDeliveries deletes deliveries before a moment, and those of the future, of all queues.
-- name: ForgetDeliveries :exec
delete from scheduler_go.deliveries where delivered_at < @before or delivered_at > statement_timestamp() + interval '1 minute';

-- AddWork writes work without groups, lanes and hosters.
-- name: AddWork :copyfrom
insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, urgent, claimed)
values ($1, $2, $3, $4, $5, $6, $7);

-- AddKeptWork writes work that stays in the ledger until its end is known.
-- name: AddKeptWork :copyfrom
insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, urgent, claimed, since, share_group, cost, priority,
  lane_set, lane, lane_name, lanes_left, soft_limit, hard_limit, below, memory, lister, first, behind, visit_type, url, hosters, retried, expected)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29);

-- LockWork locks the outgoing, sent and settled work of Celery task ids, in the order that all listeners
-- use.
-- name: LockWork :many
select w.task_id, w.state, w.queue, w.home, w.claimed, w.started, w.share_group, w.cost,
       w.lane_set, w.lane, w.lane_name, w.lanes_left, w.retried, w.soft_limit, w.timed_out, w.below, w.memory, w.lister, w.first, w.behind, w.visit_type, w.url, w.hosters,
       coalesce(tt.type, '')::text as task_type
from scheduler_go.work w
left join (select t.backend_name, min(t.type) as type from public.task_type t group by 1) tt on tt.backend_name = w.task_name
where w.task_id = any(@task_ids::uuid[]) and w.state <> 'backlog'
order by w.task_id
for update of w;

-- StartWork records the start of work. Celery starts work again at a retry.
-- name: StartWork :exec
update scheduler_go.work w
set started = o.started
from (select unnest(@task_id::uuid[]) as task_id, unnest(@started::double precision[]) as started) o
where w.task_id = o.task_id;

-- SettleWork keeps ended work whose runtime is not known yet: with its group's charge, to correct it, and
-- with its lane set, to learn from it. It keeps visits whose result is not known yet with their hosters. started is 0 if
-- the start is unknown.
-- name: SettleWork :exec
update scheduler_go.work w
set state = 'settled', settled = o.settled, started = nullif(o.started, 0),
    share_group = case when o.charges then w.share_group end, cost = case when o.charges then o.charged else w.cost end,
    lane_set = case when o.awaits_runtime then w.lane_set end, hosters = case when o.awaits_result then w.hosters end
from (select unnest(@task_id::uuid[]) as task_id, unnest(@received::timestamptz[]) as settled, unnest(@started::double precision[]) as started,
             unnest(@charges::boolean[]) as charges, unnest(@charged::double precision[]) as charged, unnest(@awaits_runtime::boolean[]) as awaits_runtime,
             unnest(@awaits_result::boolean[]) as awaits_result) o
where w.task_id = o.task_id;

-- RequeueWork puts work that timed out into the backlog of the next lane.
-- name: RequeueWork :exec
update scheduler_go.work w
set task_id = o.new_id, root_id = coalesce(w.root_id, w.task_id), state = 'backlog', lane = w.lane + 1, timed_out = w.timed_out + 1,
    since = o.received, started = null, below = null, attempts = 0, last_error = null, not_before = '-infinity'
from (select unnest(@task_id::uuid[]) as task_id, unnest(@new_id::uuid[]) as new_id, unnest(@received::timestamptz[]) as received) o
where w.task_id = o.task_id;

-- ForgetSettled deletes old settled work, the oldest first.
-- name: ForgetSettled :execrows
delete from scheduler_go.work where task_id = any(array(
  select s.task_id from scheduler_go.work s where s.state = 'settled' and s.settled < @before
  order by s.settled limit @max_rows::integer for update skip locked));

-- QueuesWithSent lists the queues with sent work.
-- name: QueuesWithSent :many
select distinct queue from scheduler_go.work where state = 'sent' order by 1;

-- RecordWorkObservation records that all work sent before a moment has left the queue: before the oldest
-- that the queue can still hold. It records nothing if the queue can hold all work without a known start.
-- The caller holds the queue's lock; a deliverer may be marking messages as sent with an earlier date. It
-- records one observation a minute, and at most 20 that don't count yet.
-- name: RecordWorkObservation :exec
insert into scheduler_go.queue_looks (queue, kept, looked, sent_before)
select p.queue, p.waiting > 0, p.looked, least(u.oldest, p.looked - interval '1 minute')
from (select @queue::text as queue, @waiting::bigint as waiting, @looked::timestamptz as looked) p
cross join lateral (
  select count(*) as messages, min(w.since) filter (where w.place <= p.waiting and w.state = 'sent') as oldest
  from (
    select since, state, row_number() over (order by (state = 'sent'), since desc, task_id) as place
    from scheduler_go.work where queue = p.queue and state in ('outgoing', 'sent') and started is null
  ) w
) u
where u.messages > p.waiting and (
    select count(*) < 20 and count(*) filter (where l.looked between p.looked - interval '50 seconds' and p.looked) = 0
    from scheduler_go.queue_looks l where l.queue = p.queue and l.kept = (p.waiting > 0))
on conflict do nothing;

-- RecordEmptyQueue records that a queue was observed empty. The caller doesn't hold the queue's lock. So
-- the observation excludes work claimed in the ten minutes before, and since the oldest message on its way
-- to the queue.
-- name: RecordEmptyQueue :exec
insert into scheduler_go.queue_looks (queue, kept, looked, sent_before)
select p.queue, false, p.looked, least(p.looked - interval '10 minutes', (
  select min(w.claimed) - interval '1 minute' from scheduler_go.work w
  where w.state = 'outgoing' and w.queue = p.queue and w.place >= (select low from scheduler_go.low_water)))
from (select @queue::text as queue, @looked::timestamptz as looked) p
where (
    select count(*) < 20 and count(*) filter (where l.looked between p.looked - interval '50 seconds' and p.looked) = 0
    from scheduler_go.queue_looks l where l.queue = p.queue and not l.kept)
on conflict do nothing;

-- LeftQueueBefore returns the latest moment before which all sent messages had left the queue, by observations
-- made before @looked_before.
-- name: LeftQueueBefore :one
select coalesce(max(sent_before), 'epoch')::timestamptz from scheduler_go.queue_looks
where queue = @queue and not kept and looked < @looked_before;

-- ForgetObservations deletes observations from before a moment that a better one from before it covers, and
-- all from before an earlier moment.
-- name: ForgetObservations :exec
delete from scheduler_go.queue_looks l
where l.looked < @useless_before or l.looked < @looked_before and exists (
  select from scheduler_go.queue_looks better
  where better.queue = l.queue and better.kept = l.kept and better.looked < @looked_before
    and (better.sent_before, better.looked) > (l.sent_before, l.looked));

-- WorkToGiveUp locks sent work of a queue that gets no end event. It takes work that is long past its
-- limit, work without a limit that began very long ago, and very old work. Of work without a known start it
-- takes the oldest, beyond the number that the queue or the way to it can still hold, if it left the queue
-- long ago. The caller holds the queue's lock.
-- name: WorkToGiveUp :many
with sent as (
  select w.task_id, row_number() over (partition by w.started is null order by (w.state = 'sent'), w.since desc, w.task_id) as place
  from scheduler_go.work w
  where w.queue = @queue and w.state in ('outgoing', 'sent')
)
select w.task_id, coalesce(w.home, w.queue) as home, w.share_group, w.cost, w.lane_set, w.lane_name
from scheduler_go.work w join sent s on s.task_id = w.task_id
where w.state = 'sent' and (w.since < @lost_before::timestamptz
   or w.started is null and s.place > @waiting::bigint
      and w.since < (select max(l.sent_before) from scheduler_go.queue_looks l where l.queue = @queue and l.looked < @silent_before)
   or scheduler_go.began(w.started, w.since, @now::timestamptz) + w.hard_limit < extract(epoch from @silent_before::timestamptz)::double precision
   or w.hard_limit is null and scheduler_go.began(w.started, w.since, @now) < extract(epoch from @begun_before::timestamptz)::double precision)
order by w.task_id
limit @max_rows::integer
for update of w;

-- Backoffs lists the delayed messages of runs.
-- name: Backoffs :many
select task_id::text as backend_id, attempts, coalesce(last_error, '')::text as reason, not_before
from scheduler_go.work
where state = 'outgoing' and attempts > 0 and task_id = any(@backend_ids::uuid[]);
