use super::*;
use crate::storage::CleanedPart;

#[test]
fn enum_names_match_json() {
    let by = || AnsweredBy::Client("agentctl".to_owned());
    let decision = Decision {
        tool: "now".to_owned(),
        args: serde_json::json!({}),
        leads_to: None,
        asked_by: Requester { model: "m".to_owned(), agent: "main".to_owned() },
        verdict: VerdictName::Allow,
        layer: None,
        rule: None,
        risk: None,
        reason: None,
        allowed: true,
        granted_by: Vec::new(),
        by: DecidedBy::Rules,
        answer: None,
        reply: None,
    };
    let facts = [
        ("call_decided", AuditFact::CallDecided(Box::new(decision))),
        (
            "call_ended",
            AuditFact::CallEnded(CallEnd {
                tool: "now".to_owned(),
                ran: true,
                error: None,
                exit_code: Some(1),
                duration_ms: 3,
                files: Vec::new(),
                output: String::new(),
                output_bytes: 9,
                output_sha256: None,
            }),
        ),
        ("model_asked", AuditFact::ModelAsked { tool: "kit".to_owned(), model: "m".to_owned(), max_tokens: 7 }),
        ("side_question", AuditFact::SideQuestion { question: "why?".to_owned(), model: "m".to_owned(), by: by() }),
        ("grant_added", AuditFact::GrantAdded { rule: "write_file".to_owned(), scope: "session".to_owned(), by: by() }),
        (
            "grant_revoked",
            AuditFact::GrantRevoked { rule: "write_file".to_owned(), scope: "session".to_owned(), by: by() },
        ),
        ("mode_set", AuditFact::ModeSet { mode: SessionMode::Plan, by: by() }),
        ("project_made_writable", AuditFact::ProjectMadeWritable { project: "/src/app".to_owned(), by: by() }),
        (
            "project_trusted",
            AuditFact::ProjectTrusted { project: "/src/app".to_owned(), sha256: "ab".repeat(32), by: by() },
        ),
        ("project_distrusted", AuditFact::ProjectDistrusted { project: "/src/app".to_owned(), by: AnsweredBy::Daemon }),
        (
            "plugin_added",
            AuditFact::PluginAdded {
                plugin: "kit".to_owned(),
                sha256: "ab".repeat(32),
                source: "/src/kit".to_owned(),
                by: by(),
            },
        ),
        ("plugin_removed", AuditFact::PluginRemoved { plugin: "kit".to_owned(), by: AnsweredBy::Daemon }),
        (
            "session_imported",
            AuditFact::SessionImported { source: "agentd 1".to_owned(), former_id: None, events: 7, by: by() },
        ),
        ("undone", AuditFact::Undone { of_turn: None, files: Vec::new(), by: "model".to_owned() }),
        ("daemon_started", AuditFact::DaemonStarted { version: "1".to_owned(), pid: 7 }),
        ("daemon_stopped", AuditFact::DaemonStopped { pid: 7 }),
        ("rules_read", AuditFact::RulesRead { sources: Vec::new(), sha256: None, problem: None }),
        (
            "log_damaged",
            AuditFact::LogDamaged { found: "cut".to_owned(), bytes: 0, sha256: None, kept_as: None, problem: None },
        ),
        ("log_continued", AuditFact::LogContinued { previous: "audit-1.jsonl".to_owned() }),
        (
            "log_trimmed",
            AuditFact::LogTrimmed {
                file: "audit-1.jsonl".to_owned(),
                through: AuditHead { n: 7, hash: "ab".repeat(32) },
                bytes: 9,
            },
        ),
        (
            "cleaned",
            AuditFact::Cleaned {
                parts: vec![CleanedData { part: CleanedPart::Undo, sessions: 1, files: 2, bytes: 3 }],
                by: "schedule".to_owned(),
            },
        ),
    ];
    for (name, fact) in facts {
        let entry = AuditEntry::general(Timestamp::UNIX_EPOCH, fact);
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(json["kind"], name);
        assert_eq!(entry.fact.name(), name);
        assert_eq!(serde_json::from_value::<AuditEntry>(json).unwrap(), entry);
    }
}
