//! The daemon's own facts for the audit log, and how the log is opened and closed.
//!
//! What is recorded for others than the session: turns for an OpenTelemetry collector, where a person names one, by tasks beside
//! everything else, which nothing waits for; and requests to models as they are on the wire, where a session or the configuration
//! says so.

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
    let mut settings = AuditConfig::new(&paths.data, redactor.by_form_too(), clock);
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

/// The setting for no collector.
const NONE: &str = "none";

/// Starts to send what ends from now on, or has ended since the last run and was not acknowledged, by tasks that end
/// with what is returned. Where nobody asks for it, the position of an earlier run is forgotten: what happens now is not
/// sent later.
pub(crate) async fn start(
    config: &Config,
    env: &Environment,
    data: PathBuf,
    store: Arc<dyn Store>,
    activity: &watch::Receiver<Activity>,
) -> JoinSet<()> {
    let settings = &config.daemon.telemetry;
    let configured = ConfiguredTelemetry {
        endpoint: Some(settings.endpoint.as_str()).filter(|endpoint| *endpoint != NONE),
        content: settings.content,
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut exporters = JoinSet::new();
    let telemetry = match TelemetryConfig::read(|name| env.text(name), configured) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            // A slip in a variable forgets nothing: what is due is sent once it is mended.
            tracing::warn!("telemetry is off: {error}");
            return exporters;
        }
    };
    for signal in Signal::ALL {
        let sent = telemetry.as_ref().filter(|telemetry| telemetry.signal(signal).is_some());
        let Some(telemetry) = sent.cloned() else {
            if let Err(error) = position_file(&data, signal).forget() {
                tracing::warn!("an old position of telemetry cannot be removed: {error}");
            }
            continue;
        };
        export::anchor(signal, &store, &data).await;
        tracing::info!(signal = signal.as_str(), content = telemetry.content, "turns are sent to a collector");
        let (store, data, activity) = (Arc::clone(&store), data.clone(), activity.clone());
        exporters.spawn(async move {
            if let Err(error) = export::follow(signal, &telemetry, store, &data, activity).await {
                tracing::warn!("telemetry is off: {error}");
            }
        });
    }
    exporters
}

/// The log of requests to models. Nothing is opened before there is something to keep.
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
