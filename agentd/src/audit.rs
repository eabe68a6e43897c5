//! The daemon's own facts for the audit log, and how the log is opened and closed.

use std::sync::Arc;

use agentd_audit::{AuditConfig, AuditLog, redact::Patterns};
use agentd_core::{
    audit::{AuditEntry, AuditFact},
    ports::{Audit as _, Clock},
};

use crate::{
    config::{Config, RuleSettings},
    failure::Failure,
    paths::Paths,
    redact::Redactor,
};

/// Opens the log. One that was left damaged goes on, and says so in itself: `agentctl audit verify` shows what was found.
///
/// # Errors
/// It cannot be written. Without it nothing could run that changes anything, so the daemon does not begin.
pub async fn open(
    config: &Config,
    paths: &Paths,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
) -> Result<Arc<AuditLog>, Failure> {
    let patterns = Patterns::default();
    let clean = move |text: &str| patterns.clean(&redactor.clean(text));
    let mut settings = AuditConfig::new(&paths.data, clean, clock);
    settings.rotate_at = config.daemon.audit.max_file_bytes.0;
    let opened = tokio::task::spawn_blocking(move || AuditLog::open(settings)).await;
    let opened = opened.map_err(|error| Failure::broken("could not open the audit log").with_source(error))?;
    let log = opened.map_err(|error| {
        let hint = error.hint().unwrap_or("look at audit.jsonl in the data folder").to_owned();
        Failure::broken(error.to_string()).with_hint(hint)
    })?;
    Ok(Arc::new(log))
}

/// Tells that the daemon has begun, and with which rules.
pub async fn tell_start(log: &AuditLog, clock: &dyn Clock, rules: &RuleSettings) {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let started = AuditFact::DaemonStarted { version, pid: std::process::id() };
    log.note(AuditEntry::general(clock.now(), started)).await;
    log.note(AuditEntry::general(clock.now(), rules_read(rules))).await;
}

/// The fact that rules were read and hold from now on.
#[must_use]
pub fn rules_read(rules: &RuleSettings) -> AuditFact {
    AuditFact::RulesRead { sources: rules.sources.clone(), sha256: Some(rules.sha256.clone()), problem: None }
}

/// The fact that there are new rules that cannot be used: the old ones go on.
#[must_use]
pub fn rules_refused(problem: String) -> AuditFact {
    AuditFact::RulesRead { sources: Vec::new(), sha256: None, problem: Some(problem) }
}

/// Tells that the daemon ends in good order, and closes the log.
pub async fn close(log: &AuditLog, clock: &dyn Clock) {
    let stopped = AuditFact::DaemonStopped { pid: std::process::id() };
    log.note(AuditEntry::general(clock.now(), stopped)).await;
    log.close().await;
}
