-- What was said and done, to be found again. Filled when somebody searches, from where the last search had come to.

-- How far each session is.
CREATE TABLE search_progress (
    session INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
    through INTEGER NOT NULL
) STRICT;

CREATE TABLE searched (
    key     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    text    TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX searched_by_number ON searched (session, seq);

-- Three letters at a time: that finds parts of words, and words of languages that put no space between them.
CREATE VIRTUAL TABLE search USING fts5 (text, content = 'searched', content_rowid = 'key', tokenize = 'trigram');

-- What a person deletes is overwritten here, too.
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER searched_added AFTER INSERT ON searched BEGIN
    INSERT INTO search (rowid, text) VALUES (new.key, new.text);
END;

-- Runs also where a session takes its rows along.
CREATE TRIGGER searched_removed AFTER DELETE ON searched BEGIN
    INSERT INTO search (search, rowid, text) VALUES ('delete', old.key, old.text);
END;
