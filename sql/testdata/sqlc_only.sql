-- What sqlc has to know besides the schema: temporary tables that functions
-- make, and schemas that migrate itself makes.
create schema scheduler_go;
