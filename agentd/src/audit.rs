//! The daemon's own audit log entries, and opening and closing the log.
//!
//! This module also starts the other recorders. If a collector is configured, background tasks export turns over
//! OpenTelemetry; turns do not wait for the export. Model requests are logged as sent if a session or the configuration
//! requests it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agentd_audit::{AuditConfig, AuditLog};
use agentd_core::{
    audit::{AuditEntry, AuditFact, AuditHead},
    ports::{Audit as _, Clock, Store},
};
use agentd_engine::Activity;
use agentd_exchange::{ExchangeLog, ExchangeLogConfig};
use agentd_store::SqliteStore;
use agentd_telemetry::{
    Signal, TelemetryConfig,
    config::ConfiguredTelemetry,
    export::{self, position_file},
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    config::{Config, RuleSettings},
    environment::Environment,
    failure::Failure,
    paths::Paths,
    redact::Redactor,
};

/// Interval at which the journal stores the head of the log. An attacker who also removes the file that records the
/// last line can cut off the lines of one interval without detection.
const HEAD_INTERVAL: Duration = Duration::from_secs(10);

/// Opens the log, which must contain at least the lines up to the stored head. A damaged log is continued, and the
/// damage is recorded in it; `agentctl audit verify` shows the damage.
///
/// # Errors
/// Fails if the log cannot be written. The daemon then does not start, because all changes must be logged.
pub async fn open(
    config: &Config,
    paths: &Paths,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    stored: Option<AuditHead>,
) -> Result<Arc<AuditLog>, Failure> {
    let mut settings = AuditConfig::new(&paths.data, redactor.with_patterns(), clock);
    settings.noted = stored;
    settings.rotate_at = config.daemon.audit.max_file_bytes.0;
    let opened = tokio::task::spawn_blocking(move || AuditLog::open(settings)).await;
    let opened = opened.map_err(|error| Failure::broken("could not open the audit log").with_source(error))?;
    let log = opened.map_err(|error| {
        let hint = error.hint().unwrap_or("check audit.jsonl in the data folder").to_owned();
        Failure::broken(error.to_string()).with_hint(hint)
    })?;
    Ok(Arc::new(log))
}

/// Records the start of the daemon and its rules.
pub async fn record_start(log: &AuditLog, clock: &dyn Clock, rules: &RuleSettings) {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let started = AuditFact::DaemonStarted { version, pid: std::process::id() };
    log.note(AuditEntry::general(clock.now(), started)).await;
    log.note(AuditEntry::general(clock.now(), rules_read(rules))).await;
}

/// Returns the fact that rules were loaded and are in force.
pub fn rules_read(rules: &RuleSettings) -> AuditFact {
    AuditFact::RulesRead { sources: rules.sources.clone(), sha256: Some(rules.sha256.clone()), problem: None }
}

/// Returns the head of the log as stored in the journal, or `None` if it cannot be read.
pub async fn stored_head(store: &SqliteStore) -> Option<AuditHead> {
    store.audit_head().await.unwrap_or_else(|error| {
        tracing::warn!("could not read the last audit position from the journal: {error}");
        None
    })
}

/// Periodically stores the log's durable head in the journal, so that the stored head is never ahead of the log. Never
/// returns.
pub async fn store_head_periodically(log: &AuditLog, store: &SqliteStore) {
    let mut last = None;
    loop {
        store_head(store, &mut last, log.synced_head().await).await;
        tokio::time::sleep(HEAD_INTERVAL).await;
    }
}

async fn store_head(store: &SqliteStore, last: &mut Option<AuditHead>, head: Option<AuditHead>) {
    let Some(head) = head.filter(|head| last.as_ref() != Some(head)) else { return };
    match store.note_audit_head(head.clone()).await {
        Ok(()) => *last = Some(head),
        Err(error) => tracing::debug!("could not store the audit position: {error}"),
    }
}

/// Records the orderly stop of the daemon, closes the log, and stores its final head in the journal.
pub async fn close(log: &AuditLog, store: &SqliteStore, clock: &dyn Clock) {
    let stopped = AuditFact::DaemonStopped { pid: std::process::id() };
    log.note(AuditEntry::general(clock.now(), stopped)).await;
    let head = log.close().await;
    store_head(store, &mut None, head).await;
}

/// Value of the setting that disables the collector.
const DISABLED: &str = "none";

/// Starts the exporters. They send turns that end from now on, and turns since the last run that were not acknowledged.
/// The tasks stop when the returned set is dropped. If export is disabled, the stored position is removed, so that
/// turns from that time are not sent later.
pub(crate) async fn start(
    config: &Config,
    env: &Environment,
    data: PathBuf,
    store: Arc<dyn Store>,
    activity: &watch::Receiver<Activity>,
) -> JoinSet<()> {
    let settings = &config.daemon.telemetry;
    let configured = ConfiguredTelemetry {
        endpoint: Some(settings.endpoint.as_str()).filter(|endpoint| *endpoint != DISABLED),
        content: settings.content,
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut exporters = JoinSet::new();
    let telemetry = match TelemetryConfig::read(|name| env.text(name), configured) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            // An invalid variable does not reset the position: pending turns are sent once the variable is corrected.
            tracing::warn!("telemetry is off: {error}");
            return exporters;
        }
    };
    for signal in Signal::ALL {
        let exported = telemetry.as_ref().filter(|telemetry| telemetry.signal(signal).is_some());
        let Some(telemetry) = exported.cloned() else {
            if let Err(error) = position_file(&data, signal).forget() {
                tracing::warn!("could not remove an old telemetry position: {error}");
            }
            continue;
        };
        export::anchor(signal, &store, &data).await;
        tracing::info!(signal = signal.as_str(), content = telemetry.content, "exporting turns to a collector");
        let (store, data, activity) = (Arc::clone(&store), data.clone(), activity.clone());
        exporters.spawn(async move {
            if let Err(error) = export::follow(signal, &telemetry, store, &data, activity).await {
                tracing::warn!("telemetry is off: {error}");
            }
        });
    }
    exporters
}

/// Creates the log of model requests. No file is opened before the first entry.
pub(crate) fn exchanges(config: &Config, folder: PathBuf, redactor: Redactor, clock: Arc<dyn Clock>) -> ExchangeLog {
    let settings = &config.daemon.trace;
    ExchangeLog::new(ExchangeLogConfig {
        folder,
        is_on: settings.requests,
        max_file_bytes: settings.max_file_bytes.0,
        max_files: u32::try_from(settings.max_files.0).unwrap_or(u32::MAX),
        clean: Arc::new(move |text| redactor.clean(text)),
        clock,
    })
}
