-- Turns that wait behind the open one of their session, so that they are not lost with the process.

CREATE TABLE queued_turns (
    key     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    turn    TEXT    NOT NULL,
    start   TEXT    NOT NULL
) STRICT;

CREATE INDEX queued_turns_by_session ON queued_turns (session);
