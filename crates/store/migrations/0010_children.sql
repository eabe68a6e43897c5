-- Sessions that work for another one: lists leave them out, and they go with it.

ALTER TABLE sessions ADD COLUMN parent INTEGER REFERENCES sessions (key) ON DELETE CASCADE;

CREATE INDEX children ON sessions (parent) WHERE parent IS NOT NULL;

DROP INDEX sessions_by_use;
CREATE INDEX sessions_by_use ON sessions (updated_at, id) WHERE parent IS NULL;
