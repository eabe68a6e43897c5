-- The first version of the journal. This file is history: it never changes; what comes later is a new file.
--
-- Identifiers are the 32 hexadecimal digits of a UUID. Times are nanoseconds since 1970. Inside the database a
-- session is known by a small integer, so that its 32 digits are not repeated in every event.

PRAGMA application_id = 0x61676e74;

-- The narrow part of a session's projection, rewritten with every append.
CREATE TABLE sessions (
    key           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    title         TEXT    NOT NULL DEFAULT '',
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    turns         INTEGER NOT NULL DEFAULT 0,
    last_seq      INTEGER NOT NULL DEFAULT 0,
    reset_seq     INTEGER NOT NULL DEFAULT 0,
    open_turn     TEXT,
    open_turn_seq INTEGER,
    interrupted   INTEGER NOT NULL DEFAULT 0,
    usage         TEXT    NOT NULL
) STRICT;

CREATE INDEX sessions_by_use ON sessions (updated_at, id);
CREATE INDEX open_turns ON sessions (id) WHERE open_turn IS NOT NULL;

-- The wide part, rewritten only when it is what changed.
CREATE TABLE session_state (
    session  INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
    settings TEXT NOT NULL,
    todos    TEXT NOT NULL
) STRICT;

-- The log. A row goes to the end of the table whatever its session is, so that one commit of many sessions
-- touches few pages; only the narrow index entries are spread by session.
CREATE TABLE events (
    key     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    turn    TEXT,
    kind    TEXT    NOT NULL,
    payload TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_by_number ON events (session, seq);

-- What a model's history is made of, without a look at any other event.
CREATE INDEX completed_items ON events (session, seq) WHERE kind = 'item_completed';

CREATE TABLE interrupts (
    key         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    session     INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    raised_seq  INTEGER NOT NULL,
    interrupt   TEXT    NOT NULL,
    answer      TEXT,
    resolved_at INTEGER
) STRICT;

CREATE INDEX interrupts_by_session ON interrupts (session);
CREATE INDEX pending_interrupts ON interrupts (session) WHERE resolved_at IS NULL;
