-- Which part of a session's history a model sees, since a prefix may be replaced by a summary.

ALTER TABLE sessions ADD COLUMN window_after INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN window_summary INTEGER NOT NULL DEFAULT 0;

-- A reset before this version is the start of what is seen.
UPDATE sessions SET window_after = reset_seq;
