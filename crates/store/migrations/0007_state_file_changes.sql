-- What the files of sessions' own states held, newest first, so that undo does not read whole journals for it.

CREATE INDEX state_file_changes ON events (session, seq)
    WHERE kind = 'state_changed' AND json_extract(payload, '$.change.state') = 'file';
