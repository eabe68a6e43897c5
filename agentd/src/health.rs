//! Health of the stored data: a full disk, a journal that is gone or damaged, sessions that it no longer knows.

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

/// Size of the trial write that shows whether the disk takes it, in bytes: about what a small turn needs.
const TRIAL_BYTES: usize = 64 << 10;

/// Sessions and events that are named.
const NAMED: usize = 20;

/// Looks after the data folder.
pub struct Health {
    data: PathBuf,
    store: Arc<SqliteStore>,
    /// Set if there was an audit log before there was a journal.
    journal_was_lost: bool,
}

impl Health {
    /// Of that data folder. `had_audit_log` says whether there was an audit log before this daemon began.
    pub fn new(data: PathBuf, store: Arc<SqliteStore>, had_audit_log: bool) -> Self {
        let journal_was_lost = store.is_new() && had_audit_log;
        Self { data, store, journal_was_lost }
    }

    /// Problems that can be seen at once.
    pub async fn problems(&self) -> Vec<Finding> {
        let data = self.data.clone();
        let disk = spawn_blocking(move || disk(&data)).await.unwrap_or_default();
        let journal = self.store.look().err().map(|error| of_store("journal", &error));
        disk.into_iter().chain(journal).chain(self.cut_off()).collect()
    }

    /// The same, and what takes a look at everything that is kept.
    pub async fn examine(&self) -> Vec<Finding> {
        let mut findings = self.problems().await;
        findings.extend(self.lost().await);
        if findings.iter().all(|finding| !finding.is_failure) {
            findings.extend(self.store.try_write().await.err().map(|error| of_store("journal", &error)));
        }
        match self.store.damaged().await {
            Ok(damaged) => findings.extend(damaged.iter().map(of_session)),
            Err(error) => findings.push(of_store("journal", &error)),
        }
        match self.store.size().await {
            Ok(size) if size.stuck_sessions > 0 => findings.push(of_stuck(size.stuck_sessions)),
            Ok(_) => {}
            Err(error) => findings.push(of_store("journal", &error)),
        }
        findings
    }

    /// Loss of the journal with its log, until a person has seen it.
    pub fn cut_off(&self) -> Option<Finding> {
        let told = self.store.loss()?;
        let hint = format!(
            "what was said and done last is not in it; a copy of the whole data folder may have it, and docs/operations.md \
             says more. When you have seen this, remove {}",
            self.store.loss_file().display()
        );
        Some(failure("journal", format!("the journal lost its newest part: {told}"), hint))
    }

    /// Facts that an earlier daemon knew and the journal does not.
    pub async fn lost(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.journal_was_lost {
            let message = "the journal is new, and the audit log is older: the journal was removed or emptied";
            findings.push(warning("journal", message, "bring agentd.db and the files beside it back from a copy"));
        }
        let workspaces = self.data.join("workspace");
        let folders = spawn_blocking(move || sessions_in(&workspaces)).await.unwrap_or_default();
        match self.store.unknown(folders).await {
            Ok(unknown) if !unknown.is_empty() => findings.push(of_unknown(&unknown)),
            Ok(_) => {}
            Err(error) => findings.push(of_store("journal", &error)),
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

fn of_store(subject: &str, error: &StoreError) -> Finding {
    failure(subject, error.to_string(), error.hint().unwrap_or_default())
}

fn of_session(damaged: &DamagedSession) -> Finding {
    let hint = "the rest of it can be read and resumed; `agentctl sessions delete` removes it";
    match damaged.id {
        None => failure(
            "session",
            "a session of the journal has no id that can be read",
            "bring back a copy of the journal",
        ),
        Some(id) if damaged.events.is_empty() => failure("session", format!("session {id} cannot be read"), hint),
        Some(id) => {
            let numbers: Vec<String> = damaged.events.iter().take(NAMED).map(ToString::to_string).collect();
            let more = if damaged.events.len() > NAMED { " and more" } else { "" };
            let message = format!("session {id} has damaged events: {}{more}", numbers.join(", "));
            failure("session", message, hint)
        }
    }
}

fn of_unknown(unknown: &[SessionId]) -> Finding {
    let named: Vec<String> = unknown.iter().take(NAMED).map(ToString::to_string).collect();
    let more = unknown.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    warning(
        "journal",
        format!("workspace/ has files of sessions that the journal does not know: {}{more}", named.join(", ")),
        "if agentd.db was removed or replaced, bring it back from a copy; if not, these folders can be removed",
    )
}

fn of_stuck(sessions: u64) -> Finding {
    let what =
        if sessions == 1 { "1 deleted session is".to_owned() } else { format!("{sessions} deleted sessions are") };
    failure(
        "journal",
        format!(
            "{what} still in agentd.db, which is damaged there and cannot be overwritten; they are not shown anywhere"
        ),
        "the next start tries again; docs/operations.md says how to make a journal of what can be read",
    )
}

/// The sessions that have folders there.
fn sessions_in(folder: &Path) -> Vec<SessionId> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Tries whether the disk takes a write, and whether the audit log is ours to write.
fn disk(data: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = try_to_write(data) {
        findings.push(failure(
            "disk",
            format!("cannot write to {}, where journal, audit log and files are kept: {error}", data.display()),
            "free some space; `agentctl sessions delete` works on a full disk too, and sessions can be read",
        ));
    }
    let audit = data.join("audit.jsonl");
    if let Err(error) = OpenOptions::new().append(true).open(&audit) {
        findings.push(failure(
            "audit",
            format!("cannot write to {}: {error}; nothing runs that changes anything", audit.display()),
            "it must be a file of yours that can be written",
        ));
    }
    findings
}

/// Writes a little, and takes it away again.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".trial-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let written = file.write_all(&[0; TRIAL_BYTES]).and_then(|()| file.sync_data());
    let removed = fs::remove_file(&path);
    written.and(removed)
}
