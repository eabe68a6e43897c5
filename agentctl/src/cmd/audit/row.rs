//! A record of the audit log in one row.

use agentd_core::{
    audit::{AuditFact, AuditRecord, CallEnd, CallOutcome, DecidedBy, Decision, VerdictName},
    interrupt::{Answer, AnsweredBy},
    turn::OnInterrupt,
};
use jiff::tz::TimeZone;

use crate::{render::tool_line, report, terminal::paint::duration};

/// The names of the columns.
pub(super) const HEAD: [&str; 7] = ["TIME", "SESSION", "WHAT", "ABOUT", "RULES", "DECIDED BY", "OUTCOME"];

/// Characters that are shown of a person's reply.
const LONGEST_REPLY: usize = 30;

/// The record, column by column, as it was written down: a table lets every character of its cells be seen.
pub(super) fn row(record: &AuditRecord, zone: &TimeZone) -> [String; 7] {
    let entry = &record.line.entry;
    let time = entry.at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let session = entry.session_id.map_or_else(|| "-".to_owned(), crate::report::short_id);
    let [what, about, rules, by, outcome] = match &entry.fact {
        AuditFact::CallDecided(decision) => call(decision, record),
        other => event(other),
    };
    [time, session, what, about, rules, by, outcome]
}

fn call(decision: &Decision, record: &AuditRecord) -> [String; 5] {
    let rules = match decision.verdict {
        VerdictName::Allow => "allow",
        VerdictName::Ask => "ask",
        VerdictName::Deny => "deny",
    };
    let called = tool_line::main_text(&decision.args);
    let about = match (&decision.answer, &decision.leads_to) {
        // What a person put in its place is what ran, if anything did.
        (Some(Answer::Edit { args }), _) => format!("(edited) {} (was {called})", tool_line::main_text(args)),
        (_, Some(leads_to)) => format!("{called} -> {leads_to}"),
        (_, None) => called,
    };
    let end = record.ended.as_ref().map(|ended| &ended.end);
    [decision.tool.clone(), about, rules.to_owned(), decided_by(decision), outcome(record.outcome, end)]
}

fn decided_by(decision: &Decision) -> String {
    let by = match &decision.by {
        DecidedBy::Rules => "rules".to_owned(),
        DecidedBy::Grant => "kept rule".to_owned(),
        DecidedBy::Client(name) => name.clone(),
        DecidedBy::Deadline => "deadline".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Approve) => "--on-interrupt approve".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Deny) => "--on-interrupt deny".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Fail) => "--on-interrupt fail".to_owned(),
        DecidedBy::OnInterrupt(OnInterrupt::Wait) => "nobody".to_owned(),
        DecidedBy::Tool => "tool".to_owned(),
        DecidedBy::Daemon => "daemon".to_owned(),
    };
    let answers: Vec<String> = [&decision.answer, &decision.reply].into_iter().flatten().map(words).collect();
    if answers.is_empty() { by } else { format!("{by}: {}", answers.join(", ")) }
}

fn words(answer: &Answer) -> String {
    match answer {
        Answer::Approve => "approve".to_owned(),
        Answer::Always { .. } | Answer::Keep { .. } => "always".to_owned(),
        Answer::Reject { .. } => "reject".to_owned(),
        Answer::Edit { .. } => "edit".to_owned(),
        Answer::Text { text } => format!("answer \"{}\"", report::cut(text.trim(), LONGEST_REPLY)),
    }
}

fn outcome(outcome: Option<CallOutcome>, end: Option<&CallEnd>) -> String {
    let Some(outcome) = outcome else { return "-".to_owned() };
    let mut text = outcome.as_str().to_owned();
    let Some(end) = end.filter(|_| outcome != CallOutcome::Refused) else { return text };
    if let Some(error) = end.error {
        text.push_str(&format!(" {}", error.as_str()));
    }
    if let Some(code) = end.exit_code {
        text.push_str(&format!(", exit {code}"));
    }
    match end.files.len() {
        0 => {}
        files => text.push_str(&format!(", {}", report::count(files as u64, "file"))),
    }
    text.push_str(&format!(", {}", duration(end.duration_ms)));
    text
}

/// Columns of a record that belongs to no call.
fn event(fact: &AuditFact) -> [String; 5] {
    let answerer = |by: &AnsweredBy| match by {
        AnsweredBy::Client(name) => name.clone(),
        AnsweredBy::Deadline => "deadline".to_owned(),
        AnsweredBy::Daemon => "daemon".to_owned(),
    };
    let (what, about, by) = match fact {
        AuditFact::ModelAsked { tool, model, max_tokens } => {
            ("model asked", format!("{model}, up to {max_tokens} tokens"), tool.clone())
        }
        AuditFact::GrantAdded { rule, scope, by } => ("rule kept", format!("{scope}: {rule}"), answerer(by)),
        AuditFact::GrantRevoked { rule, scope, by } => ("rule revoked", format!("{scope}: {rule}"), answerer(by)),
        AuditFact::ModeSet { mode, by } => ("mode set", mode.to_string(), answerer(by)),
        AuditFact::ProjectTrusted { project, sha256, by } => {
            let hash: String = sha256.chars().take(12).collect();
            ("project trusted", format!("{project} ({hash})"), answerer(by))
        }
        AuditFact::ProjectDistrusted { project, by } => ("project distrusted", project.clone(), answerer(by)),
        AuditFact::PluginAdded { plugin, sha256, by, .. } => {
            let hash: String = sha256.chars().take(12).collect();
            ("plugin added", format!("{plugin} ({hash})"), answerer(by))
        }
        AuditFact::PluginRemoved { plugin, by } => ("plugin removed", plugin.clone(), answerer(by)),
        AuditFact::SessionImported { source, events, by, .. } => {
            ("session imported", format!("{events} events, by {source}"), answerer(by))
        }
        AuditFact::Undone { files, by, .. } => {
            let first = files.first().map(|file| file.path.clone()).unwrap_or_default();
            let more = files.len().saturating_sub(1);
            ("undo", if more > 0 { format!("{first} and {more} more") } else { first }, by.clone())
        }
        AuditFact::DaemonStarted { version, pid } => {
            ("agentd started", format!("{version}, pid {pid}"), "-".to_owned())
        }
        AuditFact::DaemonStopped { pid } => ("agentd stopped", format!("pid {pid}"), "-".to_owned()),
        AuditFact::RulesRead { problem: Some(problem), .. } => ("rules refused", problem.clone(), "-".to_owned()),
        AuditFact::RulesRead { sources, .. } => ("rules read", sources.join(", "), "-".to_owned()),
        AuditFact::LogDamaged { found, .. } => ("log damaged", found.clone(), "-".to_owned()),
        AuditFact::LogContinued { previous } => ("log continued", format!("after {previous}"), "-".to_owned()),
        AuditFact::LogTrimmed { file, through, .. } => {
            ("log trimmed", format!("{file} removed, up to line {}", through.n), "-".to_owned())
        }
        AuditFact::Cleaned { parts, by } => {
            let parts: Vec<String> =
                parts.iter().map(|part| format!("{}: {}", part.part.as_str(), report::bytes(part.bytes))).collect();
            ("cleaned", parts.join(", "), by.clone())
        }
        AuditFact::CallDecided(_) | AuditFact::CallEnded(_) => (fact.name(), String::new(), "-".to_owned()),
    };
    [what.to_owned(), about, "-".to_owned(), by, "-".to_owned()]
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        audit::{AuditEntry, AuditLine, ChangedFile, RecordedEnd, Requester},
        tool::{FileChangeKind, ToolErrorCode},
    };
    use serde_json::json;

    use super::*;
    use crate::report::Table;

    fn entry(fact: AuditFact) -> AuditEntry {
        let session = "0193a5b2-7c1d-7000-8000-000000000002".parse().unwrap();
        AuditEntry::of_session("2026-01-31T12:00:00Z".parse().unwrap(), session, fact)
    }

    fn decided(by: DecidedBy, answer: Option<Answer>) -> AuditFact {
        AuditFact::CallDecided(Box::new(Decision {
            tool: "run_bash_command".to_owned(),
            args: json!({"command": "rm -r \u{1b}[2Jbuild"}),
            leads_to: None,
            asked_by: Requester { model: "m".to_owned(), agent: "main".to_owned() },
            verdict: VerdictName::Ask,
            layer: Some("checker".to_owned()),
            rule: Some("it removes files".to_owned()),
            risk: None,
            reason: None,
            allowed: !matches!(answer, Some(Answer::Reject { .. })),
            granted_by: Vec::new(),
            by,
            answer,
            reply: None,
        }))
    }

    fn record(fact: AuditFact, outcome: Option<CallOutcome>, error: Option<ToolErrorCode>) -> AuditRecord {
        let end = CallEnd {
            tool: "run_bash_command".to_owned(),
            ran: true,
            error,
            exit_code: error.is_none().then_some(0),
            duration_ms: 1200,
            files: vec![ChangedFile { path: "build".to_owned(), change: FileChangeKind::Deleted }],
            output: String::new(),
            output_bytes: 0,
            output_sha256: None,
        };
        let is_over = matches!(outcome, Some(CallOutcome::Done | CallOutcome::Failed));
        let ended = is_over.then_some(RecordedEnd { n: 8, at: Timestamp::UNIX_EPOCH, end });
        AuditRecord { line: AuditLine { n: 7, entry: entry(fact) }, outcome, ended }
    }

    #[test]
    fn where_a_link_led_stands_behind_what_was_named() {
        let AuditFact::CallDecided(mut decision) = decided(DecidedBy::Rules, None) else { panic!() };
        decision.tool = "read_file".to_owned();
        decision.args = json!({"path": "docs/a.md"});
        decision.leads_to = Some("docs/b.md".to_owned());
        let record = record(AuditFact::CallDecided(decision), Some(CallOutcome::Open), None);
        assert_eq!(row(&record, &TimeZone::UTC)[3], "docs/a.md -> docs/b.md");
    }

    #[test]
    fn what_a_person_replied_is_shown_in_short() {
        let check = |answer: Option<Answer>, reply: &str, expected: &str| {
            let AuditFact::CallDecided(mut decision) = decided(DecidedBy::Client("phone".to_owned()), answer) else {
                panic!()
            };
            decision.tool = "ask_human".to_owned();
            decision.args = json!({"question": "Which?"});
            decision.reply = Some(Answer::Text { text: reply.to_owned() });
            let mut table = Table::new(["DECIDED BY"]);
            let record = record(AuditFact::CallDecided(decision), Some(CallOutcome::Done), None);
            table.row([row(&record, &TimeZone::UTC)[5].clone()]);
            assert_eq!(table.plain().lines().nth(1).unwrap().trim_end(), expected);
        };
        check(None, "green", r#"phone: answer "green""#);
        check(Some(Answer::Approve), "green\n", r#"phone: approve, answer "green""#);
        check(None, "a\u{1b}[2Jb\u{202e}c\nd", r#"phone: answer "a\u{1b}[2Jb\u{202e}c⏎d""#);
        check(None, &"so long ".repeat(9), r#"phone: answer "so long so long so long so lo…""#);
    }

    #[test]
    fn an_edited_call_is_shown_as_it_ran() {
        let edit = Answer::Edit { args: json!({"command": "echo edited; exit 4"}) };
        let record = record(decided(DecidedBy::Client("phone".to_owned()), Some(edit)), Some(CallOutcome::Done), None);
        let row = row(&record, &TimeZone::UTC);
        assert_eq!(
            (row[3].as_str(), row[5].as_str()),
            ("(edited) echo edited; exit 4 (was rm -r \u{1b}[2Jbuild)", "phone: edit")
        );
    }

    #[test]
    fn a_record_is_one_line_that_hides_nothing() {
        let phone = || DecidedBy::Client("phone".to_owned());
        let mut table = Table::new(HEAD);
        for record in [
            record(AuditFact::DaemonStarted { version: "0.1.0".to_owned(), pid: 7 }, None, None),
            record(decided(phone(), Some(Answer::Approve)), Some(CallOutcome::Done), None),
            record(decided(DecidedBy::Rules, None), Some(CallOutcome::Failed), Some(ToolErrorCode::Timeout)),
            record(decided(phone(), Some(Answer::Reject { reason: None })), Some(CallOutcome::Refused), None),
            record(decided(DecidedBy::OnInterrupt(OnInterrupt::Approve), None), Some(CallOutcome::Unknown), None),
        ] {
            table.row(row(&record, &TimeZone::UTC));
        }
        insta::assert_snapshot!(table.plain(), @r"
        TIME                 SESSION   WHAT              ABOUT                 RULES  DECIDED BY              OUTCOME
        2026-01-31 12:00:00  00000002  agentd started    0.1.0, pid 7          -      -                       -
        2026-01-31 12:00:00  00000002  run_bash_command  rm -r \u{1b}[2Jbuild  ask    phone: approve          done, exit 0, 1 file, 1.2 s
        2026-01-31 12:00:00  00000002  run_bash_command  rm -r \u{1b}[2Jbuild  ask    rules                   failed E_TIMEOUT, 1 file, 1.2 s
        2026-01-31 12:00:00  00000002  run_bash_command  rm -r \u{1b}[2Jbuild  ask    phone: reject           refused
        2026-01-31 12:00:00  00000002  run_bash_command  rm -r \u{1b}[2Jbuild  ask    --on-interrupt approve  unknown
        ");
    }
}
