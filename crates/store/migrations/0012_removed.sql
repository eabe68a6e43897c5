-- Sessions that were removed, and whose words are still to be overwritten piece by piece. Such a row is its own parent: no
-- list shows it, no id names it, and its key is not given to another while anything of it is left.

CREATE INDEX removed_sessions ON sessions (key) WHERE parent = key;
