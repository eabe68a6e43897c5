//! The daemon's own facts for the audit log, and how the log is opened and closed.

use std::{sync::Arc, time::Duration};

use agentd_audit::{AuditConfig, AuditLog, redact::Patterns};
use agentd_core::{
    audit::{AuditEntry, AuditFact, AuditHead},
    ports::{Audit as _, Clock},
};
use agentd_store::SqliteStore;

use crate::{
    config::{Config, RuleSettings},
    failure::Failure,
    paths::Paths,
    redact::Redactor,
};

/// Interval at which the journal stores the head of the log. Lines of that time can be cut off without a trace by an
/// attacker who also removes the file that names the last one.
const TELLING: Duration = Duration::from_secs(10);

/// Opens the log, which must hold as much as was noted of it. A damaged one is continued, and records that itself:
/// `agentctl audit verify` shows what was found.
///
/// # Errors
/// It cannot be written. Without it nothing could run that changes anything, so the daemon does not begin.
pub async fn open(
    config: &Config,
    paths: &Paths,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    noted: Option<AuditHead>,
) -> Result<Arc<AuditLog>, Failure> {
    let patterns = Patterns::default();
    let clean = move |text: &str| patterns.clean(&redactor.clean(text));
    let mut settings = AuditConfig::new(&paths.data, clean, clock);
    settings.noted = noted;
    settings.rotate_at = config.daemon.audit.max_file_bytes.0;
    let opened = tokio::task::spawn_blocking(move || AuditLog::open(settings)).await;
    let opened = opened.map_err(|error| Failure::broken("could not open the audit log").with_source(error))?;
    let log = opened.map_err(|error| {
        let hint = error.hint().unwrap_or("look at audit.jsonl in the data folder").to_owned();
        Failure::broken(error.to_string()).with_hint(hint)
    })?;
    Ok(Arc::new(log))
}

/// Records the start of the daemon, with its rules.
pub async fn tell_start(log: &AuditLog, clock: &dyn Clock, rules: &RuleSettings) {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let started = AuditFact::DaemonStarted { version, pid: std::process::id() };
    log.note(AuditEntry::general(clock.now(), started)).await;
    log.note(AuditEntry::general(clock.now(), rules_read(rules))).await;
}

/// The fact that rules were read and hold from now on.
pub fn rules_read(rules: &RuleSettings) -> AuditFact {
    AuditFact::RulesRead { sources: rules.sources.clone(), sha256: Some(rules.sha256.clone()), problem: None }
}

/// Record of new rules that cannot be used: the old ones stay in force.
pub fn rules_refused(problem: String) -> AuditFact {
    AuditFact::RulesRead { sources: Vec::new(), sha256: None, problem: Some(problem) }
}

/// Head of the log as the journal has it; none where that cannot be read.
pub async fn noted(store: &SqliteStore) -> Option<AuditHead> {
    store.audit_head().await.unwrap_or_else(|error| {
        tracing::warn!("the journal does not say how far the audit log was: {error}");
        None
    })
}

/// Records the log's durable position in the journal from time to time: so the journal knows less than
/// the log, or as much, and never more. Never returns.
pub async fn keep_noted(log: &AuditLog, store: &SqliteStore) {
    let mut known = None;
    loop {
        note(store, &mut known, log.synced_head().await).await;
        tokio::time::sleep(TELLING).await;
    }
}

async fn note(store: &SqliteStore, known: &mut Option<AuditHead>, head: Option<AuditHead>) {
    let Some(head) = head.filter(|head| known.as_ref() != Some(head)) else { return };
    match store.note_audit_head(head.clone()).await {
        Ok(()) => *known = Some(head),
        Err(error) => tracing::debug!("could not store the head of the audit log: {error}"),
    }
}

/// Records the orderly end of the daemon, closes the log, and records its end in the journal.
pub async fn close(log: &AuditLog, store: &SqliteStore, clock: &dyn Clock) {
    let stopped = AuditFact::DaemonStopped { pid: std::process::id() };
    log.note(AuditEntry::general(clock.now(), stopped)).await;
    let head = log.close().await;
    note(store, &mut None, head).await;
}
