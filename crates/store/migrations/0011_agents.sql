-- Whom a session was handed to.

ALTER TABLE session_state ADD COLUMN agents TEXT NOT NULL DEFAULT '[]';
