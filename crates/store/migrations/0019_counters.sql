-- Sums of what happened, so that nobody reads the log to learn them: one row for all events of a day of one kind with one name and
-- one outcome. The days are local ones, as they were then. No row names a session: they stay when sessions go.

CREATE TABLE counters (
    day          TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    outcome      TEXT    NOT NULL,
    count        INTEGER NOT NULL,
    milliseconds INTEGER NOT NULL,
    PRIMARY KEY (day, kind, name, outcome)
) STRICT, WITHOUT ROWID;
