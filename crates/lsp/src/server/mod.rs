//! One language server: started at the first query, stopped when idle, restarted after a crash, and given up after
//! repeated crashes.
//!
//! - `actor`: event loop for commands, messages, process exit and timers.
//! - `connection`: running process with its pending requests. `streams`: the pipes of the process.
//! - `requests`: pending requests and retries, and detection of a server that is still loading.
//! - `documents`: open files, their findings, and the checks that wait for findings.
//! - `watched_files`: detection of changes on disk. `crashes`: backoff and giving up; pure.

mod actor;
mod connection;
mod crashes;
mod documents;
mod requests;
mod streams;
mod watched_files;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use agentd_core::{language::WirePosition, ports::Confiner, tool::FileChangeKind};
use serde_json::{Value, value::RawValue};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::{LanguageLimits, ServerConfig},
    protocol::Finding,
    source::{Content, Stamp},
};

pub(crate) use documents::MAX_OPEN;

/// Maximum number of commands in a server's queue.
const MAX_COMMANDS: usize = 64;

/// Findings of one file.
pub(crate) type Findings = Arc<[Finding]>;

/// Parameters of a server.
pub(crate) struct ServerParts {
    pub(crate) config: ServerConfig,
    pub(crate) limits: LanguageLimits,
    /// Folder of the project.
    pub(crate) folder: PathBuf,
    /// Root folder of the server, relative to the project.
    pub(crate) root: PathBuf,
    pub(crate) confiner: Arc<dyn Confiner>,
}

impl ServerParts {
    fn stopped(&self) -> ServerError {
        ServerError::transient(format!("{} was stopped", self.config.name))
    }
}

/// Reason why a server did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ServerError {
    /// Error message, one sentence long.
    pub(crate) message: String,
    /// True if the server will not be started again.
    pub(crate) given_up: bool,
}

impl ServerError {
    /// Creates an error after which the server is retried.
    fn transient(message: String) -> Self {
        Self { message, given_up: false }
    }
}

/// File in the project, with its text.
#[derive(Debug, Clone)]
pub(crate) struct OpenText {
    pub(crate) below: PathBuf,
    pub(crate) text: Arc<str>,
    /// Stamp of the file when it was read.
    pub(crate) stamp: Option<Stamp>,
}

impl OpenText {
    /// Returns the text of a file, or `None` if the text cannot be sent to a server.
    pub(crate) fn of(below: &Path, content: &Content) -> Option<Self> {
        match content {
            Content::Text(text, stamp) => {
                Some(Self { below: below.to_path_buf(), text: Arc::clone(text), stamp: Some(*stamp) })
            }
            Content::Absent | Content::Unreadable => None,
        }
    }
}

/// Purpose of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckPurpose {
    /// Findings in texts before an edit, as the baseline of a comparison.
    Baseline,
    /// Findings in the texts on disk, to be compared with the baseline.
    Comparison,
    /// Findings in the texts on disk, to be displayed.
    Question,
}

/// Change of a file on disk, with its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskChange {
    Created = 1,
    Changed = 2,
    Deleted = 3,
}

impl From<FileChangeKind> for DiskChange {
    fn from(kind: FileChangeKind) -> Self {
        match kind {
            FileChangeKind::Created => Self::Created,
            FileChangeKind::Modified => Self::Changed,
            FileChangeKind::Deleted => Self::Deleted,
        }
    }
}

/// Answer with the path of the project inside the server's sandbox.
pub(crate) struct ServerAnswer {
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) folder: PathBuf,
}

type Reply<T> = oneshot::Sender<Result<T, ServerError>>;

enum Command {
    /// Check texts. If these are the texts on disk, other open files are updated first.
    Check { files: Vec<OpenText>, purpose: CheckPurpose, reply: Reply<Vec<Findings>> },
    /// Query about a position in a file.
    Ask { file: OpenText, question: Question, reply: Reply<ServerAnswer> },
    /// Files changed on disk.
    Changed { files: Vec<(PathBuf, DiskChange)> },
    /// Return the last findings of all open files.
    Recall { purpose: CheckPurpose, reply: oneshot::Sender<Vec<(PathBuf, Findings)>> },
    /// Stop the server process.
    Stop { reply: oneshot::Sender<()> },
}

/// Query about a position in a file.
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) position: WirePosition,
    /// Additional parameters of the request.
    pub(crate) more: Vec<(&'static str, Value)>,
}

/// Condition of a server, used to decide how long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// Not running, or has not answered yet.
    Cold,
    Warm,
    /// Given up and never started again.
    GivenUp,
}

/// Handle to a server. Dropping it kills the process.
pub(crate) struct ServerHandle {
    pub(crate) parts: Arc<ServerParts>,
    commands: mpsc::Sender<Command>,
    condition: watch::Receiver<Condition>,
    /// True if the end of a turn has waited for the server since its last answer.
    was_awaited: AtomicBool,
    _task: AbortOnDropHandle<()>,
}

impl ServerHandle {
    /// Creates a server that is not yet running.
    pub(crate) fn spawn(parts: ServerParts) -> Self {
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let (sender, condition) = watch::channel(Condition::Cold);
        let parts = Arc::new(parts);
        let task = AbortOnDropHandle::new(tokio::spawn(actor::run(Arc::clone(&parts), receiver, sender)));
        Self { parts, commands, condition, was_awaited: AtomicBool::new(false), _task: task }
    }

    /// Returns true if the server is running and has answered before.
    pub(crate) fn is_warm(&self) -> bool {
        *self.condition.borrow() == Condition::Warm
    }

    /// Returns true if the end of a turn may wait a long time for the server: the server has answered before, or has
    /// not been waited for yet.
    pub(crate) fn may_wait_long(&self) -> bool {
        let is_warm = self.is_warm();
        !self.was_awaited.swap(!is_warm, Ordering::Relaxed) || is_warm
    }

    /// Returns true if the server will not be started again.
    pub(crate) fn is_given_up(&self) -> bool {
        *self.condition.borrow() == Condition::GivenUp
    }

    /// Returns the findings in texts, in the order of the texts.
    pub(crate) async fn check(
        &self,
        files: Vec<OpenText>,
        purpose: CheckPurpose,
    ) -> Result<Vec<Findings>, ServerError> {
        self.send(|reply| Command::Check { files, purpose, reply }).await
    }

    /// Starts the server and sends these texts, without waiting for the result.
    pub(crate) fn prepare(&self, files: Vec<OpenText>) {
        let (reply, _) = oneshot::channel();
        // A server whose queue is full is busy anyway.
        let _ = self.commands.try_send(Command::Check { files, purpose: CheckPurpose::Comparison, reply });
    }

    /// Returns the answer to a query.
    pub(crate) async fn ask(&self, file: OpenText, question: Question) -> Result<ServerAnswer, ServerError> {
        self.send(|reply| Command::Ask { file, question, reply }).await
    }

    /// Notifies a running server of changes on disk.
    pub(crate) async fn notify_changed(&self, files: Vec<(PathBuf, DiskChange)>) {
        let _ = self.commands.send(Command::Changed { files }).await;
    }

    /// Returns the last findings of all open files that are relevant for this purpose.
    pub(crate) async fn last_findings_for(&self, purpose: CheckPurpose) -> Vec<(PathBuf, Findings)> {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Recall { purpose, reply }).await;
        answer.await.unwrap_or_default()
    }

    pub(crate) async fn stop(&self) {
        let (reply, done) = oneshot::channel();
        let _ = self.commands.send(Command::Stop { reply }).await;
        let _ = done.await;
    }

    async fn send<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, ServerError> {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(command(reply)).await;
        answer.await.unwrap_or_else(|_| Err(self.parts.stopped()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LanguageConfig, pool::tests};

    #[tokio::test]
    async fn unresponsive_server_is_awaited_once() {
        let LanguageConfig { mut servers, limits } = tests::config(Path::new("mute"), &["mute"]);
        let (config, confiner) = (servers.remove(0), Arc::new(tests::NoSandbox));
        let parts = ServerParts { config, limits, folder: PathBuf::new(), root: PathBuf::new(), confiner };
        let (sender, condition) = watch::channel(Condition::Cold);
        let server = ServerHandle { condition, ..ServerHandle::spawn(parts) };
        let waits = || [0; 3].map(|_| server.may_wait_long());
        assert_eq!(waits(), [true, false, false]);
        sender.send_replace(Condition::Warm);
        assert_eq!(waits(), [true; 3]);
        // Restarted after an idle stop or a crash.
        sender.send_replace(Condition::Cold);
        assert_eq!(waits(), [true, false, false]);
    }
}
