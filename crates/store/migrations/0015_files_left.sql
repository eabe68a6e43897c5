-- Sessions that were removed and whose files may still be there. A row goes when they are gone, so that the next start goes on
-- with what a crash has cut off.

CREATE TABLE files_left (session TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
