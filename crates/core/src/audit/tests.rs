use serde_json::json;

use super::*;

#[test]
fn enum_names_match_json() {
    let by = json!({"client": "agentctl"});
    let asked_by = json!({"model": "m", "agent": "main"});
    for fact in [
        json!({"kind": "call_decided", "tool": "now", "args": {}, "asked_by": asked_by, "verdict": "allow",
            "allowed": true, "by": "rules"}),
        json!({"kind": "call_ended", "tool": "now", "ran": true, "exit_code": 1, "duration_ms": 3, "output_bytes": 9}),
        json!({"kind": "model_asked", "tool": "kit", "model": "m", "max_tokens": 7}),
        json!({"kind": "side_question", "question": "why?", "model": "m", "by": by}),
        json!({"kind": "grant_added", "rule": "write_file", "scope": "session", "by": by}),
        json!({"kind": "grant_revoked", "rule": "write_file", "scope": "session", "by": by}),
        json!({"kind": "mode_set", "mode": "plan", "by": by}),
        json!({"kind": "project_made_writable", "project": "/src/app", "by": by}),
        json!({"kind": "project_trusted", "project": "/src/app", "sha256": "ab", "by": by}),
        json!({"kind": "project_distrusted", "project": "/src/app", "by": "daemon"}),
        json!({"kind": "plugin_added", "plugin": "kit", "sha256": "ab", "source": "/src/kit", "by": by}),
        json!({"kind": "plugin_removed", "plugin": "kit", "by": "daemon"}),
        json!({"kind": "session_imported", "source": "agentd 1", "events": 7, "by": by}),
        json!({"kind": "undone", "files": [], "by": "model"}),
        json!({"kind": "daemon_started", "version": "1", "pid": 7}),
        json!({"kind": "daemon_stopped", "pid": 7}),
        json!({"kind": "rules_read", "sources": []}),
        json!({"kind": "log_damaged", "found": "cut", "bytes": 0}),
        json!({"kind": "log_continued", "previous": "audit-1.jsonl"}),
        json!({"kind": "log_trimmed", "file": "audit-1.jsonl", "through": {"n": 7, "hash": "ab"}, "bytes": 9}),
        json!({"kind": "cleaned", "parts": [{"part": "undo", "sessions": 1, "files": 2, "bytes": 3}], "by": "schedule"}),
    ] {
        let entry = AuditEntry::general(Timestamp::UNIX_EPOCH, serde_json::from_value(fact.clone()).unwrap());
        let written = serde_json::to_value(&entry).unwrap();
        assert_eq!((&written["kind"], entry.fact.name()), (&fact["kind"], fact["kind"].as_str().unwrap().to_owned()));
        assert_eq!(serde_json::from_value::<AuditEntry>(written).unwrap(), entry);
    }
}
