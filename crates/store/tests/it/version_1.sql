-- A journal as the first version of the schema left it. Never changed.
PRAGMA application_id = 0x61676e74;

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

CREATE TABLE session_state (
    session  INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
    settings TEXT NOT NULL,
    todos    TEXT NOT NULL
) STRICT;

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

PRAGMA user_version = 1;
PRAGMA journal_mode = wal;

INSERT INTO sessions VALUES
    (1, '019b76da0000700080000000000000a1', '', 1767225600000000000, 1767225600000000000, 0, 0, 0, NULL, NULL, 0,
     '{"prompt_tokens":0,"cached_tokens":0,"completion_tokens":0,"reasoning_tokens":0}'),
    (2, '019b76da0000700080000000000000a2', 'Write a note', 1767225600000000000, 1767225605000000005, 1, 5, 0,
     '019b76da0000700080000000000000b1', 1, 0,
     '{"prompt_tokens":120,"cached_tokens":20,"completion_tokens":8,"reasoning_tokens":0,"cost_microusd":42}');

INSERT INTO session_state VALUES
    (1, '{"confirm_write":true,"confirm_exec":true}', '[]'),
    (2, '{"confirm_write":true,"confirm_exec":false,"slot":"code","project":{"path":"/home/ada/house","writable":false},"grants":["run_bash_command:ls"]}',
     '[{"id":"1","content":"write it","status":"in_progress","priority":"medium"}]');

INSERT INTO events (session, seq, at, turn, kind, payload) VALUES
    (2, 1, 1767225601000000001, '019b76da0000700080000000000000b1', 'turn_started',
     '{"type":"turn_started","trace_id":"019b76da-0000-7000-8000-0000000000c1","slot":"base","model":"small","reason":"the base model","max_steps":100}'),
    (2, 2, 1767225602000000002, '019b76da0000700080000000000000b1', 'item_completed',
     '{"type":"item_completed","item":{"id":"019b76da-0000-7000-8000-0000000000d1","turn_id":"019b76da-0000-7000-8000-0000000000b1","kind":"user_message","text":"Write a note"},"status":"done"}'),
    (2, 3, 1767225603000000003, '019b76da0000700080000000000000b1', 'usage_updated',
     '{"type":"usage_updated","step":1,"slot":"base","model":"small","usage":{"prompt_tokens":120,"cached_tokens":20,"completion_tokens":8,"reasoning_tokens":0,"cost_microusd":42},"turn":{"prompt_tokens":120,"cached_tokens":20,"completion_tokens":8,"reasoning_tokens":0,"cost_microusd":42}}'),
    (2, 4, 1767225604000000004, '019b76da0000700080000000000000b1', 'interrupt_raised',
     '{"type":"interrupt_raised","interrupt":{"id":"019b76da-0000-7000-8000-0000000000e1","session_id":"019b76da-0000-7000-8000-0000000000a2","turn_id":"019b76da-0000-7000-8000-0000000000b1","call_id":"call_019b76da0000000000e1","kind":"approval","tool":"write_file","args":{"path":"note.txt","content":"Hello"},"risk":"medium","reason":"it changes a file","raised_at":"2026-01-01T00:00:04.000000004Z","deadline":null}}'),
    (2, 5, 1767225605000000005, NULL, 'state_changed',
     '{"type":"state_changed","change":{"state":"todos","todos":[{"id":"1","content":"write it","status":"in_progress","priority":"medium"}]}}');

INSERT INTO interrupts (id, session, raised_seq, interrupt) VALUES
    ('019b76da0000700080000000000000e1', 2, 4,
     '{"id":"019b76da-0000-7000-8000-0000000000e1","session_id":"019b76da-0000-7000-8000-0000000000a2","turn_id":"019b76da-0000-7000-8000-0000000000b1","call_id":"call_019b76da0000000000e1","kind":"approval","tool":"write_file","args":{"path":"note.txt","content":"Hello"},"risk":"medium","reason":"it changes a file","raised_at":"2026-01-01T00:00:04.000000004Z","deadline":null}');
