-- Sessions that were deleted after their model calls were counted: one that is imported again is not counted twice. A row names no
-- session: it is found by whoever has the id, and nothing else can be learnt from it.

CREATE TABLE counted (
    digest  BLOB    NOT NULL PRIMARY KEY,
    -- Number of the last event whose calls were counted.
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
