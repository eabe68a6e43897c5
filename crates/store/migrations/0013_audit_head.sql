-- How far the audit log was when the journal was last told, so that an end that was cut off shows. Never further than the log.

CREATE TABLE audit_head (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    n    INTEGER NOT NULL,
    hash TEXT    NOT NULL
) STRICT;
