-- Tools that were mentioned or found in a session, in the order in which they came, and where it works as its
-- instructions tell.

ALTER TABLE session_state ADD COLUMN tools TEXT NOT NULL DEFAULT '[]';
ALTER TABLE session_state ADD COLUMN surroundings TEXT NOT NULL DEFAULT 'null';
