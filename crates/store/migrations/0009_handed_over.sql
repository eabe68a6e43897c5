-- What people handed over, as far as a model is still to be told of it.

ALTER TABLE session_state ADD COLUMN handed_over TEXT NOT NULL DEFAULT '{}';
