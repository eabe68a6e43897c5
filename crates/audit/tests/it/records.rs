//! Tests for records: each call occurs once, with its decision and outcome, across several files.

use agentd_audit::{AuditConfig, AuditLog, read};
use agentd_core::{
    Timestamp,
    audit::{
        AuditEntry, AuditFact, AuditLine, AuditRecord, CallEnd, CallOutcome, RecordQuery, RecordedEnd, VerdictName,
    },
    ids::{CallId, SessionId},
    ports::{Audit as _, AuditReader as _},
    tool::ToolErrorCode,
};
use proptest::{collection::vec, prelude::*};

use crate::world::{World, decided, started};

const TOOLS: [&str; 2] = ["run_bash_command", "write_file"];

fn decision(session: SessionId, call: u8, tool: usize, allowed: bool) -> AuditEntry {
    let mut entry = decided(session, serde_json::json!({"command": "ls"}));
    entry.call_id = Some(call_id(call));
    if let AuditFact::CallDecided(decision) = &mut entry.fact {
        TOOLS[tool].clone_into(&mut decision.tool);
        decision.allowed = allowed;
        decision.verdict = if allowed { VerdictName::Ask } else { VerdictName::Deny };
    }
    entry
}

fn call_id(call: u8) -> CallId {
    CallId::from(format!("call_{call}"))
}

fn end(session: SessionId, call: u8, error: Option<ToolErrorCode>) -> AuditEntry {
    let end = CallEnd {
        tool: TOOLS[0].to_owned(),
        ran: true,
        error,
        exit_code: None,
        duration_ms: 1,
        files: Vec::new(),
        output: "out".to_owned(),
        output_bytes: 0,
        output_sha256: None,
    };
    let entry = AuditEntry::of_session(Timestamp::UNIX_EPOCH, session, AuditFact::CallEnded(end));
    AuditEntry { call_id: Some(call_id(call)), ..entry }
}

/// Log event with the number of its call.
#[derive(Debug, Clone)]
enum Step {
    Decide { call: u8, tool: usize, allowed: bool },
    End { call: u8, failed: bool },
    Start,
}

fn step() -> impl Strategy<Value = Step> {
    let call = 0..4_u8;
    prop_oneof![
        4 => (call.clone(), 0..2_usize, any::<bool>())
            .prop_map(|(call, tool, allowed)| Step::Decide { call, tool, allowed }),
        4 => (call, any::<bool>()).prop_map(|(call, failed)| Step::End { call, failed }),
        1 => Just(Step::Start),
    ]
}

/// Simple reference implementation of the query.
fn expected(lines: &[AuditLine], query: &RecordQuery) -> Vec<AuditRecord> {
    let is_same_call = |a: &AuditLine, b: &AuditLine| a.entry.call_id == b.entry.call_id;
    let record = |(at, line): (usize, &AuditLine)| {
        let AuditFact::CallDecided(decision) = &line.entry.fact else {
            return AuditRecord { line: line.clone(), outcome: None, ended: None };
        };
        let later = &lines[at + 1..];
        let next = later.iter().find(|later| is_same_call(later, line));
        let ended = next.and_then(|next| match &next.entry.fact {
            AuditFact::CallEnded(end) => Some(RecordedEnd { n: next.n, at: next.entry.at, end: end.clone() }),
            _ => None,
        });
        let restarted = later.iter().any(|later| matches!(later.entry.fact, AuditFact::DaemonStarted { .. }));
        let outcome = CallOutcome::of(decision.allowed, ended.as_ref().map(|ended| &ended.end), restarted);
        AuditRecord { line: line.clone(), outcome: Some(outcome), ended }
    };
    let matching = lines.iter().enumerate().filter(|(_, line)| query.matches(line)).map(record);
    let mut records: Vec<AuditRecord> = matching.collect();
    records.drain(..records.len().saturating_sub(query.limit));
    records
}

async fn check(steps: Vec<Step>, rotate_at: u64, limit: usize, before: u64) {
    let world = World::new();
    let log = AuditLog::open(AuditConfig { rotate_at, ..world.config() }).unwrap();
    let session = SessionId::generate();
    // A call has at most one end per decision.
    let mut open = [false; 4];
    for step in steps {
        match step {
            Step::Decide { call, tool, allowed } => {
                open[usize::from(call)] = true;
                log.note(decision(session, call, tool, allowed)).await;
            }
            Step::End { call, failed } => {
                if std::mem::take(&mut open[usize::from(call)]) {
                    log.note(end(session, call, failed.then_some(ToolErrorCode::Tool))).await;
                }
            }
            Step::Start => log.note(started(1)).await,
        }
        // Waits for each line, so that rotations occur at every position.
        log.synced_head().await.unwrap();
    }
    let mut lines = Vec::new();
    read::each(world.folder(), |line| lines.push(line)).unwrap();
    let queries = [
        RecordQuery { limit, before, ..RecordQuery::default() },
        RecordQuery { limit, tool: Some(TOOLS[1].to_owned()), ..RecordQuery::default() },
        RecordQuery { limit, verdict: Some(VerdictName::Ask), before, ..RecordQuery::default() },
        RecordQuery { limit, refused: true, ..RecordQuery::default() },
        RecordQuery { limit, session_id: Some(session), ..RecordQuery::default() },
    ];
    for query in queries {
        assert_eq!(log.records(query.clone()).await.unwrap(), expected(&lines, &query), "{query:?}");
    }
    log.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn records_are_independent_of_rotation(
        steps in vec(step(), 0..24),
        rotate_at in prop_oneof![Just(1_u64), Just(1500), Just(u64::MAX)],
        limit in 1..12_usize,
        before in 0..20_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, rotate_at, limit, before));
    }
}
