-- Rules that a person keeps for good, for every session. Those of one session stand in its settings.

CREATE TABLE grants (
    key  INTEGER PRIMARY KEY,
    rule TEXT    NOT NULL UNIQUE,
    at   INTEGER,
    by   TEXT
) STRICT;
