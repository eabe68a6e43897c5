-- The messages that were seen when a compaction was taken back: until there are really more, none is made by itself.

ALTER TABLE sessions ADD COLUMN window_held INTEGER NOT NULL DEFAULT 0;
