-- How much of a session was imported stands in its settings, and nowhere else.

ALTER TABLE sessions DROP COLUMN imported;
