-- Listers: the programs that find origins, one row an instance.

-- ListerByID finds a lister by its identifier.
-- name: ListerByID :one
select * from listers where id = @id;

-- ListerByName finds a lister by its name and its instance's name.
-- name: ListerByName :one
select * from listers where name = @name and instance_name = @instance_name;

-- Listers lists all listers.
-- name: Listers :many
select * from listers order by name, instance_name;

-- ListersByID returns the listers with the identifiers.
-- name: ListersByID :many
select * from listers where id = any(@ids::uuid[]) order by name, instance_name;

-- CreateLister adds a lister, unless it exists.
-- name: CreateLister :exec
insert into listers (name, instance_name, first_visits_queue_prefix, current_state, updated)
values (@name, @instance_name, @first_visits_queue_prefix, '{}', now())
on conflict do nothing;

-- UpdateLister writes a lister, unless it has been written since it was read.
-- name: UpdateLister :one
update listers
set name = @name,
    instance_name = @instance_name,
    current_state = @current_state,
    last_listing_finished_at = @last_listing_finished_at,
    first_visits_queue_prefix = @first_visits_queue_prefix,
    first_visits_scheduled_at = @first_visits_scheduled_at,
    updated = now()
where id = @id and updated = @was_updated
returning *;
