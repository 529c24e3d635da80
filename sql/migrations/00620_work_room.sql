-- +goose Up
-- Room on each page for the new versions of rows: when the start of a kept message is heard, its row then stays on its
-- page, and none of its index entries is written anew. Pages that are full keep what they have.
alter table scheduler_go.work set (fillfactor = 70);
