-- Listers: the programs that find origins, one row an instance.

-- ListerByID finds a lister by its identifier.
-- name: ListerByID :one
select * from listers where id = @id;

-- ListerByName finds a lister by its name and that of its instance.
-- name: ListerByName :one
select * from listers where name = @name and instance_name = @instance_name;

-- ListersByID finds several listers by their identifiers.
-- name: ListersByID :many
select * from listers where id = any(@ids::uuid[]);
