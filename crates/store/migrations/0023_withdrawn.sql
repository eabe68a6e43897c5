-- Marks of items that were withdrawn, so that no model and no search is shown those.

CREATE INDEX withdrawn_items ON events (session, seq)
    WHERE kind = 'state_changed' AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.change.state') END = 'withdrawn';
