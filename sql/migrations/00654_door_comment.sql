-- +goose Up
comment on table scheduler_go.door is 'The role of the RPC servers'' door to the database; the owner reads it and, while the door is open, the role of rpc-serve';
