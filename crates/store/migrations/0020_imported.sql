-- Number of the last event of a session that came from elsewhere: what is up to there did not happen here.

ALTER TABLE sessions ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;
