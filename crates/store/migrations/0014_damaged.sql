-- The same index, of which an event that is damaged does not stop every change of its row, its removal included.

DROP INDEX state_file_changes;

CREATE INDEX state_file_changes ON events (session, seq)
    WHERE kind = 'state_changed' AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.change.state') END = 'file';
