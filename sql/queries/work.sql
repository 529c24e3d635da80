-- The ledger of work, and recent deliveries.

-- LockQueues takes the advisory locks of queues, in the order given, which must be sorted. It
-- returns when it was asked, and when it got each. A session that has our time limit for
-- idle transactions (sql/postgres/sockets.go) gets a shorter one for this transaction: who holds a queue
-- and is stopped holds up everybody's claims for it.
-- name: LockQueues :many
select statement_timestamp()::timestamptz as asked,
       case when pg_advisory_xact_lock(hashtextextended('swh-scheduler queue ' || queue, 0))::text = '' then clock_timestamp() end::timestamptz as locked
from unnest(@queues::text[]) queue,
     (select set_config(name, case current_setting(name) when '30s' then '10s' else current_setting(name) end, true)
      from (values ('idle_in_transaction_session_timeout')) setting (name)) idle;

-- QueueLedgers counts the outgoing messages of each queue, and those that the broker confirmed: from the
-- moment on that its statistics may be of, before the broker itself was asked, and from then on.
-- name: QueueLedgers :many
select q.queue::text as queue,
  (select count(*) from scheduler_go.work w where w.state = 'outgoing' and w.queue = q.queue and w.place >= (select low from scheduler_go.low_water)) as outgoing,
  d.before::bigint as before, d.after::bigint as after
from (select unnest(@queues::text[]) as queue, unnest(@since::timestamptz[]) as since, unnest(@asked::timestamptz[]) as asked,
             generate_subscripts(@queues::text[], 1) as place) q
cross join lateral (
  select coalesce(sum(d.messages) filter (where d.delivered_at < q.asked), 0) as before,
         coalesce(sum(d.messages) filter (where d.delivered_at >= q.asked), 0) as after
  from scheduler_go.deliveries d where d.queue = q.queue and d.delivered_at >= q.since
) d
order by q.place;

-- SentMessages counts the sent work of a queue.
-- name: SentMessages :one
select count(*) from scheduler_go.work where state = 'sent' and queue = @queue::text;

-- OutgoingDue counts the outgoing messages that are due, urgent ones or the others, but not
-- those of queues that can't be sent to now: some of their messages wait.
-- name: OutgoingDue :one
select scheduler_go.outgoing_due(@urgent);

-- NextOutgoing locks the next messages to send, of the urgent or of the others. It skips some queues and rows, and
-- rows that another deliverer or a listener has locked. The lock is compatible with the key
-- share locks of the journal client.
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

-- LockOutgoing locks outgoing messages, but not those that another deliverer or a listener has locked.
-- name: LockOutgoing :many
select task_id from scheduler_go.work
where task_id = any(@task_ids::uuid[]) and case state when 'outgoing' then true end
order by place
for no key update skip locked;

-- PassedWork returns, of each queue that has work of groups which no worker had begun some seconds after
-- it was sent, by the moment up to which starts are known, the lowest priority of that work.
-- name: PassedWork :many
select queue, min(priority)::smallint as priority
from scheduler_go.work
where home = any(@homes::text[]) and share_group is not null and state = 'sent' and started is null
  and since < (select scheduler_go.ends_known(@now)) - make_interval(secs => @ageing::double precision)
group by queue;

-- RaiseLowWater raises the places from which the three above look at outgoing work, and drains
-- and grabs at changes of candidates, and drains at those of graphs, at the second call after any of
-- them got so many more places.
-- name: RaiseLowWater :exec
select scheduler_go.raise_low_water(@step);

-- LowerLowWater lowers them to the first outgoing work and the first changes, if those are below.
-- name: LowerLowWater :execrows
update scheduler_go.low_water l
set low = least(l.low, o.place), changes_low = least(l.changes_low, c.place), graphs_low = least(l.graphs_low, g.place)
from (select min(w.place) as place from scheduler_go.work w where w.state = 'outgoing') o,
     (select min(n.place) as place from scheduler_go.candidate_changes n) c,
     (select least((select min(place) from scheduler_go.graph_changes), (select min(place) from scheduler_go.graph_checks)) as place) g
where o.place < l.low or c.place < l.changes_low or g.place < l.graphs_low;

-- name: DropWork :exec
delete from scheduler_go.work where task_id = any(@task_ids::uuid[]);

-- MarkSent, like the two after it, finds messages by their ids, as its condition on the state is one
-- for no index: those of outgoing work may be full of what is gone. since moves on: a message may have been refused for hours.
-- name: MarkSent :exec
update scheduler_go.work set state = 'sent', since = greatest(since, statement_timestamp()) where task_id = any(@task_ids::uuid[]) and case state when 'outgoing' then true end;

-- BackOffWork delays messages that the broker refused. Like the one after it, it leaves alone those
-- whose not_before is later than the caller knows of: another deliverer has them.
-- name: BackOffWork :exec
update scheduler_go.work
set attempts = attempts + 1, last_error = @reason::text, not_before = statement_timestamp() + make_interval(secs => @seconds::double precision)
where task_id = any(@task_ids::uuid[]) and not_before <= (@untils::timestamptz[])[array_position(@task_ids::uuid[], task_id)]
  and case state when 'outgoing' then true end;

-- LeaseOutgoing keeps messages from being sent for some seconds; 0 frees them.
-- name: LeaseOutgoing :many
update scheduler_go.work
set not_before = statement_timestamp() + make_interval(secs => @seconds::double precision)
where task_id = any(@task_ids::uuid[]) and not_before <= (@untils::timestamptz[])[array_position(@task_ids::uuid[], task_id)]
  and case state when 'outgoing' then true end
returning array_position(@task_ids::uuid[], task_id)::integer as place, not_before;

-- RecordDeliveries writes how many messages each queue got, and deletes old rows. The date is the database's,
-- of a moment after the broker has confirmed them.
-- name: RecordDeliveries :exec
with forgotten as (
  delete from scheduler_go.deliveries old
  where old.queue = any(@queues::text[]) and old.delivered_at < statement_timestamp() - make_interval(secs => @kept::double precision)
)
insert into scheduler_go.deliveries (queue, delivered_at, messages)
select unnest(@queues::text[]), statement_timestamp(), unnest(@messages::integer[]);

-- ForgetDeliveries deletes what was delivered before a moment, of queues in use or not.
-- name: ForgetDeliveries :exec
delete from scheduler_go.deliveries where delivered_at < @before;

-- AddWork writes work without groups, lanes and hosters.
-- name: AddWork :copyfrom
insert into scheduler_go.work (task_id, queue, task_name, args, kwargs, urgent, claimed)
values ($1, $2, $3, $4, $5, $6, $7);

-- AddKeptWork writes work that is kept until its end is heard.
-- name: AddKeptWork :copyfrom
insert into scheduler_go.work (task_id, state, queue, home, task_name, args, kwargs, urgent, claimed, since, share_group, cost, priority,
  lane_set, lane, lane_name, lanes_left, soft_limit, hard_limit, below, memory, lister, first, behind, visit_type, url, hosters, retried, expected)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29);

-- LockWork locks the outgoing, sent and settled work of some Celery task ids, in the order
-- of all listeners.
-- name: LockWork :many
select w.task_id, w.state, w.queue, w.home, w.claimed, w.started, w.share_group, w.cost,
       w.lane_set, w.lane, w.lane_name, w.lanes_left, w.retried, w.soft_limit, w.timed_out, w.below, w.memory, w.lister, w.first, w.behind, w.visit_type, w.url,
       coalesce(tt.type, '')::text as task_type
from scheduler_go.work w
left join (select t.backend_name, min(t.type) as type from public.task_type t group by 1) tt on tt.backend_name = w.task_name
where w.task_id = any(@task_ids::uuid[]) and w.state <> 'backlog'
order by w.task_id
for update of w;

-- StartWork records when work started; Celery starts it again when it retries it.
-- name: StartWork :exec
update scheduler_go.work w
set started = o.started
from (select unnest(@task_id::uuid[]) as task_id, unnest(@started::double precision[]) as started) o
where w.task_id = o.task_id;

-- SettleWork keeps ended work whose runtime is still to be heard: with what its group was
-- charged, to correct that; with its lane set, to learn from it. started is 0 if the start
-- was not heard.
-- name: SettleWork :exec
update scheduler_go.work w
set state = 'settled', settled = o.settled, started = nullif(o.started, 0),
    share_group = case when o.charges then w.share_group end, cost = case when o.charges then o.charged else w.cost end,
    lane_set = case when o.teaches then w.lane_set end
from (select unnest(@task_id::uuid[]) as task_id, unnest(@heard::timestamptz[]) as settled, unnest(@started::double precision[]) as started,
             unnest(@charges::boolean[]) as charges, unnest(@charged::double precision[]) as charged, unnest(@teaches::boolean[]) as teaches) o
where w.task_id = o.task_id;

-- RequeueWork puts work that timed out into the backlog of the next lane.
-- name: RequeueWork :exec
update scheduler_go.work w
set task_id = o.new_id, root_id = coalesce(w.root_id, w.task_id), state = 'backlog', lane = w.lane + 1, timed_out = w.timed_out + 1,
    since = o.heard, started = null, below = null, attempts = 0, last_error = null, not_before = '-infinity'
from (select unnest(@task_id::uuid[]) as task_id, unnest(@new_id::uuid[]) as new_id, unnest(@heard::timestamptz[]) as heard) o
where w.task_id = o.task_id;

-- ForgetSettled deletes old settled work, the oldest first.
-- name: ForgetSettled :execrows
delete from scheduler_go.work where task_id = any(array(
  select s.task_id from scheduler_go.work s where s.state = 'settled' and s.settled < @before
  order by s.settled limit @max_rows::integer for update skip locked));

-- QueuesWithSent lists the queues with sent work.
-- name: QueuesWithSent :many
select distinct queue from scheduler_go.work where state = 'sent' order by 1;

-- RecordWorkObservation records which work of a queue is out of it: all that was sent before the oldest that can still be in
-- the queue. It records nothing if that can be all whose start is not known. The queue's lock is held; a deliverer may
-- just be marking messages as sent, with an earlier date. Looks are noted once a minute, and not more than 20 that don't count yet.
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

-- RecordEmptyQueue records that a queue was seen empty. The queue's lock is not held: nothing is said of what was claimed
-- in the ten minutes before, nor since the oldest message that is on its way there.
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

-- LeftQueue returns the moment before which all that was sent to a queue had left it when somebody looked, before
-- another moment.
-- name: LeftQueue :one
select coalesce(max(sent_before), 'epoch')::timestamptz from scheduler_go.queue_looks
where queue = @queue and not kept and looked < @looked_before;

-- ForgetObservations deletes looks from before a moment that say no more than another one from before it, and all from before
-- an earlier moment.
-- name: ForgetObservations :exec
delete from scheduler_go.queue_looks l
where l.looked < @useless_before or l.looked < @looked_before and exists (
  select from scheduler_go.queue_looks better
  where better.queue = l.queue and better.kept = l.kept and better.looked < @looked_before
    and (better.sent_before, better.looked) > (l.sent_before, l.looked));

-- WorkToGiveUp locks some sent work of a queue whose end will not be heard: what began and is
-- long past its limit, what began very long ago and has none, what is very old, and, of what is not
-- known to have begun, the oldest beyond what can still be in the queue or on the way there, if it was out of the
-- queue long ago. The queue's lock is held.
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
      and w.since < (select max(l.sent_before) from scheduler_go.queue_looks l where l.queue = @queue and l.looked < @unheard_before)
   or scheduler_go.began(w.started, w.since, @now::timestamptz) + w.hard_limit < extract(epoch from @unheard_before::timestamptz)::double precision
   or w.hard_limit is null and scheduler_go.began(w.started, w.since, @now) < extract(epoch from @begun_before::timestamptz)::double precision)
order by w.task_id
limit @max_rows::integer
for update of w;

-- Backoffs lists the postponed messages of runs.
-- name: Backoffs :many
select task_id::text as backend_id, attempts, coalesce(last_error, '')::text as reason, not_before
from scheduler_go.work
where state = 'outgoing' and attempts > 0 and task_id = any(@backend_ids::uuid[]);
