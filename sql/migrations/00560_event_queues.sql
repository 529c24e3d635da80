-- +goose Up
-- Up to when the events of workers are known. What nothing is heard of is given up by that moment
-- instead of by the present one, as its events may wait unread.
create table if not exists scheduler_go.event_queues (
  queue    text primary key,
  complete timestamptz not null
) with (fillfactor = 50);

comment on table scheduler_go.event_queues is 'The queues of workers'' events; no row: no daemon has looked at one yet';
comment on column scheduler_go.event_queues.complete is 'All events that came into the queue before this moment, by the database''s clock, are written; 1970: not known';

create table if not exists scheduler_go.event_readers (
  session  uuid primary key,
  queue    text not null,
  since    timestamptz not null,
  complete timestamptz not null
) with (fillfactor = 50);

comment on table scheduler_go.event_readers is 'Listeners that read a queue of events, each with one row for each connection to the broker; deleted a day after its last report';
comment on column scheduler_go.event_readers.since is 'It has read the queue over this connection since this moment, or an earlier one';
comment on column scheduler_go.event_readers.complete is 'All that the broker sent to it before this moment is written';

create function scheduler_go.ends_known(moment timestamptz) returns timestamptz
language sql stable parallel safe
as $$
select coalesce((select least(moment, greatest(min(complete), moment - interval '7 days')) from scheduler_go.event_queues having count(*) > 0), moment)
$$;
comment on function scheduler_go.ends_known(timestamptz) is
  'Returns the moment up to which the ends of work are known, as of another moment: that of event_queues, but at most 7 days earlier, so that what nothing is heard of does not stay for ever';
