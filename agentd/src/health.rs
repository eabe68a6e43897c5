//! Health of the stored data: a full disk, a missing or damaged journal, sessions that are missing from the journal.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{error::StoreError, ids::SessionId};
use agentd_proto::client::Finding;
use agentd_store::{DamagedSession, SqliteStore};
use tokio::task::spawn_blocking;

/// Size in bytes of the test write that checks the disk, roughly what a small turn stores.
const TRIAL_BYTES: usize = 64 << 10;

/// Maximum number of sessions or events listed in a finding.
const MAX_LISTED: usize = 20;

/// Checks the data folder and the journal.
pub struct Health {
    data: PathBuf,
    store: Arc<SqliteStore>,
    /// True if the journal is new although an audit log existed before.
    journal_was_lost: bool,
}

impl Health {
    /// Creates the checks for a data folder. `had_audit_log` is true if an audit log existed before this start.
    pub fn new(data: PathBuf, store: Arc<SqliteStore>, had_audit_log: bool) -> Self {
        let journal_was_lost = store.is_new() && had_audit_log;
        Self { data, store, journal_was_lost }
    }

    /// Returns problems that can be detected quickly.
    pub async fn problems(&self) -> Vec<Finding> {
        let data = self.data.clone();
        let disk = spawn_blocking(move || disk(&data)).await.unwrap_or_default();
        let journal = self.store.check_files().err().map(|error| store_failure("journal", &error));
        disk.into_iter().chain(journal).chain(self.loss_report()).collect()
    }

    /// Returns all problems, including those that require reading all stored data.
    pub async fn examine(&self) -> Vec<Finding> {
        let mut findings = self.problems().await;
        findings.extend(self.missing_data().await);
        if findings.iter().all(|finding| !finding.is_failure) {
            findings.extend(self.store.try_write().await.err().map(|error| store_failure("journal", &error)));
        }
        match self.store.damaged().await {
            Ok(damaged) => findings.extend(damaged.iter().map(damaged_session)),
            Err(error) => findings.push(store_failure("journal", &error)),
        }
        match self.store.size().await {
            Ok(size) if size.stuck_sessions > 0 => findings.push(stuck_sessions(size.stuck_sessions)),
            Ok(_) => {}
            Err(error) => findings.push(store_failure("journal", &error)),
        }
        findings
    }

    /// Returns a report about a damaged journal that lost its newest part, until the user removes the loss file.
    pub fn loss_report(&self) -> Option<Finding> {
        let loss = self.store.loss()?;
        let hint = format!(
            "restore the latest data from a backup of the whole data folder, if there is one; see docs/operations.md. To \
             dismiss this report, remove {}",
            self.store.loss_file().display()
        );
        Some(failure("journal", format!("the journal lost its newest part: {loss}"), hint))
    }

    /// Returns signs that the journal was removed or replaced: an older audit log, or files of unknown sessions.
    pub async fn missing_data(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.journal_was_lost {
            let message = "the journal is newer than the audit log: it was removed or emptied";
            findings.push(warning("journal", message, "restore agentd.db and the files beside it from a backup"));
        }
        let workspaces = self.data.join("workspace");
        let folders = spawn_blocking(move || sessions_in(&workspaces)).await.unwrap_or_default();
        match self.store.unknown(folders).await {
            Ok(unknown) if !unknown.is_empty() => findings.push(unknown_sessions(&unknown)),
            Ok(_) => {}
            Err(error) => findings.push(store_failure("journal", &error)),
        }
        findings
    }
}

fn warning(subject: &str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { subject: subject.to_owned(), message: message.into(), hint: hint.into(), is_failure: false }
}

fn failure(subject: &str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { is_failure: true, ..warning(subject, message, hint) }
}

fn store_failure(subject: &str, error: &StoreError) -> Finding {
    failure(subject, error.to_string(), error.hint().unwrap_or_default())
}

fn damaged_session(damaged: &DamagedSession) -> Finding {
    let hint = "the rest can be read and resumed; `agentctl sessions delete` removes it";
    match damaged.id {
        None => {
            failure("session", "a session in the journal has an unreadable id", "restore the journal from a backup")
        }
        Some(id) if damaged.events.is_empty() => failure("session", format!("session {id} cannot be read"), hint),
        Some(id) => {
            let numbers: Vec<String> = damaged.events.iter().take(MAX_LISTED).map(ToString::to_string).collect();
            let more = if damaged.events.len() > MAX_LISTED { " and more" } else { "" };
            let message = format!("session {id} has damaged events: {}{more}", numbers.join(", "));
            failure("session", message, hint)
        }
    }
}

fn unknown_sessions(unknown: &[SessionId]) -> Finding {
    let ids: Vec<String> = unknown.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let more = unknown.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    warning(
        "journal",
        format!("workspace/ has files of sessions that are not in the journal: {}{more}", ids.join(", ")),
        "if agentd.db was removed or replaced, restore it from a backup; otherwise remove these folders",
    )
}

fn stuck_sessions(sessions: u64) -> Finding {
    let subject =
        if sessions == 1 { "1 deleted session is".to_owned() } else { format!("{sessions} deleted sessions are") };
    failure(
        "journal",
        format!("{subject} still in agentd.db, but not listed anywhere: the damaged part cannot be overwritten"),
        "the next start retries; see docs/operations.md to rebuild the journal from what can be read",
    )
}

/// Returns the sessions that have a folder in `folder`.
fn sessions_in(folder: &Path) -> Vec<SessionId> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Checks that the disk is writable, and that the audit log can be opened for writing.
fn disk(data: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = try_to_write(data) {
        findings.push(failure(
            "disk",
            format!("cannot write to {}, which holds the journal, audit log and files: {error}", data.display()),
            "free some space; `agentctl sessions delete` works on a full disk, and sessions can still be read",
        ));
    }
    let audit = data.join("audit.jsonl");
    if let Err(error) = OpenOptions::new().append(true).open(&audit) {
        findings.push(failure(
            "audit",
            format!("cannot write to {}: {error}; calls that change anything are refused", audit.display()),
            "make it a writable file that you own",
        ));
    }
    findings
}

/// Writes, syncs and removes a small file.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".trial-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let written = file.write_all(&[0; TRIAL_BYTES]).and_then(|()| file.sync_data());
    let removed = fs::remove_file(&path);
    written.and(removed)
}
