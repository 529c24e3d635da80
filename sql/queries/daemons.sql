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

-- ForgetDaemons deletes daemons without a record for a day.
-- name: ForgetDaemons :exec
delete from scheduler_go.daemons where seen < now() - interval '1 day';
