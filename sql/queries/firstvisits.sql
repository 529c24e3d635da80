-- First visits of a lister's origins after its listing, in queues of their own.

-- ListersWithFirstVisits lists the listers with a finished listing, a queue prefix for first visits, and
-- first visits left to schedule.
-- name: ListersWithFirstVisits :many
select * from listers
where last_listing_finished_at is not null
  and first_visits_queue_prefix is not null
  and first_visits_scheduled_at is null
order by last_listing_finished_at, id;

-- FirstVisitsPrefixes lists the prefixes of the queues of first visits. Messages may wait there after all
-- first visits of a lister were scheduled.
-- name: FirstVisitsPrefixes :many
select distinct first_visits_queue_prefix::text from listers where first_visits_queue_prefix is not null order by 1;

-- ListedVisitTypes lists the visit types of the origins of a lister.
-- name: ListedVisitTypes :many
select distinct visit_type from listed_origins where lister_id = @lister_id order by visit_type;

-- FinishFirstVisits records that a lister has no first visits left: all are scheduled or set aside. It does
-- nothing if the lister has changed since it was read.
-- name: FinishFirstVisits :execrows
update listers l
set first_visits_scheduled_at = @now::timestamptz, updated = now()
where l.id = @id and l.updated = @updated
  and not exists (
    select from listed_origins lo
    left join origin_visit_stats ovs using (url, visit_type)
    where lo.lister_id = l.id and lo.enabled
      and (ovs.last_scheduled is null or ovs.last_scheduled < l.last_listing_finished_at)
      and not exists (select from scheduler_go.set_aside_origins s where s.lister_id = lo.lister_id and s.url = lo.url and s.visit_type = lo.visit_type)
  );
