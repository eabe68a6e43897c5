//! Test fixture: a log in a temporary folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_audit::{AuditConfig, AuditLog, redact::Patterns, verify};
use agentd_core::{
    Timestamp,
    audit::{
        AuditEntry, AuditFact, AuditLine, AuditProblem, AuditReport, DecidedBy, Decision, RecordQuery, Requester,
        VerdictName,
    },
    ids::SessionId,
    ports::{AuditReader as _, Clock},
};
use serde_json::Value;
use tempfile::TempDir;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

pub(crate) struct World {
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn config(&self) -> AuditConfig {
        let patterns = Patterns::default();
        let clean = move |text: &str| patterns.clean(&text.replace("hunter22", "[redacted]"));
        AuditConfig::new(self.folder(), clean, Arc::new(FixedClock))
    }

    pub(crate) fn open(&self) -> AuditLog {
        AuditLog::open(self.config()).unwrap()
    }

    /// Creates a closed log with this number of entries.
    pub(crate) async fn with(entries: u32) -> Self {
        let world = Self::new();
        world.add(entries).await;
        world
    }

    pub(crate) async fn add(&self, entries: u32) {
        use agentd_core::ports::Audit as _;
        let log = self.open();
        for pid in 0..entries {
            log.record(started(pid)).await.unwrap();
        }
        log.close().await;
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path("audit.jsonl")).unwrap()
    }

    pub(crate) fn write(&self, text: impl AsRef<[u8]>) {
        std::fs::write(self.path("audit.jsonl"), text).unwrap();
    }

    pub(crate) fn verify(&self) -> AuditReport {
        verify::verify(self.folder(), &verify::ExpectedLog::default()).unwrap()
    }

    pub(crate) fn problems(&self) -> Vec<AuditProblem> {
        problems(&self.verify())
    }

    #[track_caller]
    pub(crate) fn assert_valid(&self, lines: u64) {
        let report = self.verify();
        assert_eq!((report.lines, report.head.n, report.findings), (lines, lines, Vec::new()));
    }
}

pub(crate) fn problems(report: &AuditReport) -> Vec<AuditProblem> {
    report.findings.iter().map(|finding| finding.problem).collect()
}

pub(crate) fn started(pid: u32) -> AuditEntry {
    AuditEntry::general(Timestamp::UNIX_EPOCH, AuditFact::DaemonStarted { version: "1".to_owned(), pid })
}

pub(crate) fn decided(session: SessionId, args: Value) -> AuditEntry {
    let decision = Decision {
        tool: "run_bash_command".to_owned(),
        args,
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
    AuditEntry::of_session(Timestamp::UNIX_EPOCH, session, AuditFact::CallDecided(Box::new(decision)))
}

pub(crate) async fn newest(log: &AuditLog, limit: usize) -> Vec<AuditLine> {
    let query = RecordQuery { limit, ..RecordQuery::default() };
    log.records(query).await.unwrap().into_iter().map(|record| record.line).collect()
}
