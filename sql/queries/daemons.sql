-- The running daemons.

-- WriteDaemon writes the row of a daemon.
-- name: WriteDaemon :exec
insert into scheduler_go.daemons (id, name, version, host, started, seen, state)
values (@id, @name, @version, @host, @started, now(), @state)
on conflict (id) do update set seen = excluded.seen, state = excluded.state;

-- RemoveDaemon deletes the row of a daemon that stops.
-- name: RemoveDaemon :exec
delete from scheduler_go.daemons where id = @id;

-- Daemons lists daemons, those with the newest record first.
-- name: Daemons :many
select * from scheduler_go.daemons order by seen desc, id limit @max_daemons;

-- Restrictions returns the restrictions of runners that reported lately, as JSON; {} for one without.
-- name: Restrictions :many
select coalesce(d.state -> 'restriction', '{}')::text as restriction from scheduler_go.daemons d
where d.name = @name and d.seen > now() - interval '5 minutes' order by d.seen desc limit 100;

-- ForgetDaemons deletes daemons without a record for a day.
-- name: ForgetDaemons :exec
delete from scheduler_go.daemons where seen < now() - interval '1 day';
