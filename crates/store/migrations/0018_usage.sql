-- Sums of what model calls took, so that nobody reads the log to learn them: one row for all calls of a day to a model in a
-- slot for a session of a person. Sessions that work for another count as it. The days are local ones, as they were then.
-- Calls of deleted sessions, and of none, have the session 0.

CREATE TABLE usage (
    day                TEXT    NOT NULL,
    session            INTEGER NOT NULL,
    slot               TEXT    NOT NULL,
    model              TEXT    NOT NULL,
    calls              INTEGER NOT NULL,
    unpriced_calls     INTEGER NOT NULL,
    prompt_tokens      INTEGER NOT NULL,
    cached_tokens      INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    completion_tokens  INTEGER NOT NULL,
    reasoning_tokens   INTEGER NOT NULL,
    cost_microusd      INTEGER,
    PRIMARY KEY (day, session, slot, model)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_session ON usage (session);
