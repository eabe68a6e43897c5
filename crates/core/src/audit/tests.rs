use super::*;
use crate::storage::CleanedPart;

#[test]
fn names_are_what_json_says() {
    let facts = [
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
        AuditFact::GrantAdded {
            rule: "write_file".to_owned(),
            scope: "session".to_owned(),
            by: AnsweredBy::Client("agentctl".to_owned()),
        },
        AuditFact::ModeSet { mode: crate::session::SessionMode::Plan, by: AnsweredBy::Client("agentctl".to_owned()) },
        AuditFact::ProjectTrusted {
            project: "/src/app".to_owned(),
            sha256: "ab".repeat(32),
            by: AnsweredBy::Client("agentctl".to_owned()),
        },
        AuditFact::ProjectDistrusted { project: "/src/app".to_owned(), by: AnsweredBy::Daemon },
        AuditFact::PluginAdded {
            plugin: "kit".to_owned(),
            sha256: "ab".repeat(32),
            source: "/src/kit".to_owned(),
            by: AnsweredBy::Client("agentctl".to_owned()),
        },
        AuditFact::PluginRemoved { plugin: "kit".to_owned(), by: AnsweredBy::Daemon },
        AuditFact::SessionImported {
            source: "agentd 1".to_owned(),
            former_id: None,
            events: 7,
            by: AnsweredBy::Client("agentctl".to_owned()),
        },
        AuditFact::DaemonStarted { version: "1".to_owned(), pid: 7 },
        AuditFact::RulesRead { sources: Vec::new(), sha256: None, problem: None },
        AuditFact::LogContinued { previous: "audit-1.jsonl".to_owned() },
        AuditFact::LogTrimmed {
            file: "audit-1.jsonl".to_owned(),
            through: AuditHead { n: 7, hash: "ab".repeat(32) },
            bytes: 9,
        },
        AuditFact::Cleaned {
            parts: vec![CleanedData { part: CleanedPart::Undo, sessions: 1, files: 2, bytes: 3 }],
            by: "schedule".to_owned(),
        },
    ];
    for fact in facts {
        let entry = AuditEntry::general(Timestamp::UNIX_EPOCH, fact);
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(json["kind"], entry.fact.name());
        assert_eq!(serde_json::from_value::<AuditEntry>(json).unwrap(), entry);
    }
}
