-- The files of sessions' own states, so that loading one does not read every change that they ever had.

CREATE TABLE state_files (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    path    TEXT    NOT NULL,
    content TEXT    NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (session, path)
) STRICT;
