//! Retention: removes unused data as configured, so that the data folder does not grow without bound.
//!
//! - [`Retention`]: the interface for the schedule and for clients. One cleanup runs at a time.
//! - `schedule`: the schedule, the selection of expired data, and disk usage.
//!
//! The engine checks each session and skips sessions that are in use, waiting or pinned. Each kind of data is cleaned
//! separately: if one cleanup fails, the failure is reported and the others continue.

mod schedule;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use agentd_audit::{AuditLog, TrimLimits};
use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact},
    error::ErrorKind,
    ids::SessionId,
    ports::{Audit as _, Clock, WorkspaceArea},
    session::{SessionFilter, SessionStatus, SessionSummary},
    storage::{CleanReport, CleanedData, CleanedPart, StorageView},
};
use agentd_engine::{CleanOrder, Engine, EngineError};
use agentd_proto::client::PruneReport;
use agentd_store::SqliteStore;
use tokio::sync::{Mutex, watch};

pub use self::schedule::follow;
use self::schedule::{Candidate, KeepSince};
use crate::config::RetentionSettings;

/// Client name for scheduled cleanups.
pub const SCHEDULE: &str = "schedule";

/// Number of sessions read per page when pruning.
const PAGE: usize = 200;
/// Maximum number of removed sessions listed in a report.
const MAX_LISTED: usize = 1000;

/// Removes unused data from the data folder.
pub struct Retention {
    engine: Engine,
    store: Arc<SqliteStore>,
    audit: Arc<AuditLog>,
    clock: Arc<dyn Clock>,
    data: PathBuf,
    settings: watch::Sender<RetentionSettings>,
    /// Held during a cleanup, so that only one runs at a time.
    running: Mutex<()>,
}

impl Retention {
    /// Creates the retention for this data folder.
    pub fn new(
        engine: Engine,
        store: Arc<SqliteStore>,
        audit: Arc<AuditLog>,
        clock: Arc<dyn Clock>,
        data: PathBuf,
        settings: RetentionSettings,
    ) -> Self {
        Self { engine, store, audit, clock, data, settings: watch::Sender::new(settings), running: Mutex::default() }
    }

    /// Applies new settings, starting with the next cleanup.
    pub fn follow_settings(&self, settings: RetentionSettings) {
        self.settings.send_replace(settings);
    }

    /// Returns the sizes of all parts of the data folder.
    ///
    /// # Errors
    /// Fails if the journal or the data folder cannot be read.
    pub async fn storage(&self) -> Result<StorageView, EngineError> {
        let size = self.store.size().await?;
        let data = self.data.clone();
        let sizes = tokio::task::spawn_blocking(move || schedule::disk_usage(&data)).await.map_err(io::Error::other);
        let parts = sizes.and_then(|sizes| sizes).map_err(|error| {
            EngineError::new(ErrorKind::Storage, format!("could not scan {}: {error}", self.data.display()))
                .with_hint("you must own the data folder, and it must be readable")
        })?;
        Ok(StorageView {
            parts,
            journal_spare_bytes: size.spare_bytes,
            removed_sessions: size.removed_sessions,
            stuck_sessions: size.stuck_sessions,
            free_bytes: schedule::free_bytes(&self.data),
        })
    }

    /// Removes expired data, or only reports it if `trial` is true. The report includes failed removals.
    ///
    /// # Errors
    /// Fails if the sessions cannot be listed.
    pub async fn clean(&self, by: &str, trial: bool) -> Result<CleanReport, EngineError> {
        let _guard = self.running.lock().await;
        let settings = self.settings.borrow().clone();
        let mut cleanup = Cleanup {
            retention: self,
            due: KeepSince::new(&settings, self.clock.now()),
            settings,
            trial,
            report: CleanReport::default(),
        };
        let sessions = self.engine.filtered_page(None, usize::MAX, true, &Default::default()).await?.sessions;
        let remaining = cleanup.sessions(sessions).await;
        cleanup.files(&remaining).await;
        cleanup.audit().await;
        cleanup.logs_and_leftovers(by).await;
        let report = cleanup.report;
        if !trial && !report.parts.is_empty() {
            let fact = AuditFact::Cleaned { parts: report.parts.clone(), by: by.to_owned() };
            self.audit.note(AuditEntry::general(self.clock.now(), fact)).await;
            tracing::info!(by, bytes = report.bytes(), "removed unused data");
        }
        report.problems.iter().for_each(|problem| tracing::warn!("{problem}"));
        Ok(report)
    }

    /// Removes the sessions that match `filter` and have not been used since `unused_since`, or only reports them if
    /// `trial` is true. Skips sessions that are in use, waiting or pinned.
    ///
    /// # Errors
    /// Fails if the sessions cannot be listed.
    pub async fn prune(
        &self,
        filter: &SessionFilter,
        unused_since: Timestamp,
        trial: bool,
        by: &str,
    ) -> Result<PruneReport, EngineError> {
        let _guard = self.running.lock().await;
        let mut candidates = Vec::new();
        let mut next = None;
        loop {
            let page = self.engine.filtered_page(next, PAGE, false, filter).await?;
            candidates.extend(page.sessions.into_iter().filter(|session| session.updated_at < unused_since));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let mut report = PruneReport::default();
        for session in candidates {
            self.prune_one(session, trial, &mut report).await;
        }
        if !trial && report.count > 0 {
            let part =
                CleanedData { part: CleanedPart::Sessions, sessions: report.count, files: 0, bytes: report.bytes };
            let fact = AuditFact::Cleaned { parts: vec![part], by: by.to_owned() };
            self.audit.note(AuditEntry::general(self.clock.now(), fact)).await;
        }
        Ok(report)
    }

    async fn prune_one(&self, session: SessionSummary, trial: bool, report: &mut PruneReport) {
        if matches!(session.status, SessionStatus::Running | SessionStatus::Waiting) {
            report.kept += 1;
            return;
        }
        let bytes = self.bytes_of(&session).await;
        match self.engine.expire_session(session.id, session.updated_at, trial).await {
            Ok(true) => {
                report.count += 1;
                report.bytes += bytes;
                if report.sessions.len() < MAX_LISTED {
                    report.sessions.push(session);
                }
            }
            Ok(false) => report.kept += 1,
            Err(error) => report.problems.push(format!("could not delete session {}: {error}", session.id)),
        }
    }

    /// Returns the size of a session on disk in bytes.
    async fn bytes_of(&self, session: &SessionSummary) -> u64 {
        // If the size is unknown, the session is removed anyway.
        let mut bytes = self.store.event_bytes(session.id).await.unwrap_or_default();
        for folder in ["workspace", "undo", "traces"] {
            let content = schedule::content(self.data.join(folder).join(session.id.to_string())).await;
            bytes += content.map_or(0, |content| content.bytes);
        }
        bytes
    }
}

/// State of a running cleanup.
struct Cleanup<'a> {
    retention: &'a Retention,
    settings: RetentionSettings,
    due: KeepSince,
    trial: bool,
    report: CleanReport,
}

impl Cleanup<'_> {
    /// Deletes expired and excess sessions, and returns the others.
    async fn sessions(&mut self, sessions: Vec<SessionSummary>) -> Vec<SessionSummary> {
        let size = self.retention.store.size().await.ok();
        // Space of removed sessions is not released until it is overwritten. Removing more sessions would not release
        // it either.
        let size = size.filter(|size| size.removed_sessions == 0);
        let used = size.map_or(0, |size| size.bytes.saturating_sub(size.spare_bytes));
        let mut excess = self.settings.journal_bytes.0.map_or(0, |limit| used.saturating_sub(limit));
        let mut removed: Vec<SessionId> = Vec::new();
        for Candidate { id, last_used, bytes, is_old } in self.due.sessions(&sessions, used) {
            if !is_old && excess == 0 {
                break;
            }
            // Expiring a session also removes its files and undo contents. Their size is not measured.
            match self.retention.engine.expire_session(id, last_used, self.trial).await {
                Ok(true) => {
                    excess = excess.saturating_sub(bytes);
                    self.report.add(CleanedPart::Sessions, 1, 0, bytes);
                    removed.push(id);
                }
                Ok(false) => self.report.kept_sessions += 1,
                Err(error) => {
                    self.problem(&format!("could not delete session {id}"), &error);
                    // The next cleanup removes the rest of the session.
                    removed.push(id);
                }
            }
        }
        sessions
            .into_iter()
            .filter(|session| {
                !removed.contains(&session.id) && session.parent.is_none_or(|parent| !removed.contains(&parent))
            })
            .collect()
    }

    /// Removes files of sessions whose retention period for files has expired.
    async fn files(&mut self, sessions: &[SessionSummary]) {
        let mut children: HashMap<SessionId, Vec<&SessionSummary>> = HashMap::new();
        for session in sessions {
            if let Some(parent) = session.parent {
                children.entry(parent).or_default().push(session);
            }
        }
        for session in sessions {
            let undo_folder = self.retention.data.join("undo").join(session.id.to_string());
            let is_old = self.due.undo(session);
            let undo = if is_old { schedule::content(undo_folder).await } else { None };
            // A subagent uses the files of its parent session.
            let children = children.get(&session.id).map_or(&[][..], Vec::as_slice);
            let areas = if session.parent.is_some() { Vec::new() } else { self.due.areas(session, children) };
            if areas.is_empty() && undo.is_none() {
                continue;
            }
            let last_used = children.iter().map(|child| child.updated_at).fold(session.updated_at, Timestamp::max);
            let order = CleanOrder { areas, undo: undo.is_some(), last_used: Some(last_used), trial: self.trial };
            match self.retention.engine.clean_session(session.id, order).await {
                Ok(None) => self.report.kept_sessions += 1,
                Ok(Some(cleaned)) => {
                    if let (true, Some(content)) = (cleaned.undo, undo) {
                        self.report.add(CleanedPart::Undo, 1, content.files, content.bytes);
                    }
                    let mut counted = Vec::new();
                    for (area, removed) in cleaned.areas {
                        let part = part(area);
                        let sessions = u64::from(!counted.contains(&part));
                        counted.push(part);
                        self.report.add(part, sessions, removed.files, removed.bytes);
                    }
                }
                Err(error) => self.problem(&format!("could not clean session {}", session.id), &error),
            }
        }
    }

    async fn audit(&mut self) {
        let limits = TrimLimits {
            before: self.due.before(self.settings.audit),
            max_bytes: self.settings.audit_bytes.0,
            trial: self.trial,
        };
        match self.retention.audit.trim(limits).await {
            Ok(trimmed) => self.report.add(CleanedPart::Audit, 0, trimmed.files, trimmed.bytes),
            Err(error) => self.problem("could not clean the audit log", &error),
        }
    }

    /// Removes old logs and leftovers, and shrinks the journal file if possible.
    async fn logs_and_leftovers(&mut self, by: &str) {
        if let Some(before) = self.due.before(self.settings.logs) {
            let (logs, trial) = (self.retention.data.join("logs"), self.trial);
            let cleaned = tokio::task::spawn_blocking(move || old_logs(&logs, before, trial)).await;
            match cleaned.map_err(io::Error::other).and_then(|cleaned| cleaned) {
                Ok((files, bytes)) => self.report.add(CleanedPart::Logs, 0, files, bytes),
                Err(error) => self.problem("could not remove old logs", &error),
            }
        }
        match self.retention.engine.clean_leftovers(self.trial).await {
            Ok(content) => self.report.add(CleanedPart::Leftovers, 0, content.files, content.bytes),
            Err(error) => self.problem("could not remove leftover workspaces", &error),
        }
        // Shrinking the journal may take a long time, so it only runs on request.
        if !self.trial
            && by != SCHEDULE
            && let Err(error) = self.retention.store.let_shrink().await
        {
            self.problem("could not shrink the journal", &error);
        }
    }

    fn problem(&mut self, action: &str, error: &dyn std::error::Error) {
        self.report.problems.push(format!("{action}: {error}"));
    }
}

fn part(area: WorkspaceArea) -> CleanedPart {
    match area {
        WorkspaceArea::Outputs => CleanedPart::Outputs,
        WorkspaceArea::LargeToolResults => CleanedPart::Results,
        WorkspaceArea::Uploads | WorkspaceArea::Temp | WorkspaceArea::Skills => CleanedPart::Workspaces,
    }
}

/// Removes rotated log files that were last written before `before`. Never removes the current log file.
fn old_logs(folder: &Path, before: Timestamp, trial: bool) -> io::Result<(u64, u64)> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        entries => entries?,
    };
    let (mut files, mut bytes) = (0, 0);
    for entry in entries {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let is_rotated = entry.path().extension().is_none_or(|ending| ending != "log");
        if metadata.is_file() && is_rotated && metadata.modified()? < SystemTime::from(before) {
            if !trial {
                fs::remove_file(entry.path())?;
            }
            files += 1;
            bytes += metadata.len();
        }
    }
    Ok((files, bytes))
}
