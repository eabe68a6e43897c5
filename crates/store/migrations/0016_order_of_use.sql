-- The order in which sessions were used last, counted, because a clock may be put back.

ALTER TABLE sessions ADD COLUMN used INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET used = counted.place
FROM (SELECT key, row_number() OVER (ORDER BY updated_at, id) AS place FROM sessions) AS counted
WHERE counted.key = sessions.key;

DROP INDEX sessions_by_use;
CREATE INDEX sessions_by_use ON sessions (used) WHERE parent IS NULL;
