//! One language server: started when it is first asked, ended when nobody has asked for a while, started again after a crash,
//! and given up when it crashes again and again.
//!
//! - `actor`: its loop: commands, messages, the end of the process, and time.
//! - `connection`: a process that runs, with what it was asked and has not answered. `streams`: its pipes.
//! - `requests`: what it was asked, and whether what it answers is the whole truth yet.
//! - `documents`: files that it was told of, what it found in them, and who waits for that.
//! - `watched`: files that change without anybody telling. `crashes`: whether it may be started, pure.

mod actor;
mod connection;
mod crashes;
mod documents;
mod requests;
mod streams;
mod watched;

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

/// Commands that wait for a server at most.
const MAX_COMMANDS: usize = 64;

/// Findings of one file.
pub(crate) type Findings = Arc<[Finding]>;

/// Ingredients of a server.
pub(crate) struct ServerParts {
    pub(crate) config: ServerConfig,
    pub(crate) limits: LanguageLimits,
    /// The folder of the person.
    pub(crate) folder: PathBuf,
    /// The folder of its work, below that one.
    pub(crate) root: PathBuf,
    pub(crate) confiner: Arc<dyn Confiner>,
}

impl ServerParts {
    fn stopped(&self) -> ServerError {
        ServerError::passing(format!("{} was stopped", self.config.name))
    }
}

/// Reason why a server did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ServerError {
    /// One sentence.
    pub(crate) message: String,
    /// Set if it is not tried again.
    pub(crate) given_up: bool,
}

impl ServerError {
    /// Of one that is tried again.
    fn passing(message: String) -> Self {
        Self { message, given_up: false }
    }
}

/// A file below the folder of the person, with its text.
#[derive(Debug, Clone)]
pub(crate) struct OpenText {
    pub(crate) below: PathBuf,
    pub(crate) text: Arc<str>,
    /// The signs that its file had when it was read.
    pub(crate) stamp: Option<Stamp>,
}

impl OpenText {
    /// The text of a file, if it has one that a server can be told.
    pub(crate) fn of(below: &Path, content: &Content) -> Option<Self> {
        match content {
            Content::Text(text, stamp) => {
                Some(Self { below: below.to_path_buf(), text: Arc::clone(text), stamp: Some(*stamp) })
            }
            Content::Absent | Content::Unreadable => None,
        }
    }
}

/// Purpose of findings that are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckPurpose {
    /// Findings in texts as they were before an edit, with which later ones are compared.
    Baseline,
    /// Findings in texts of the disk that are compared with those.
    Comparison,
    /// Findings in texts of the disk, to be shown.
    Question,
}

/// Change of a file on the disk, by its number in the protocol.
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

/// An answer, and the folder of the person under the name that the server knows.
pub(crate) struct ServerAnswer {
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) folder: PathBuf,
}

type Reply<T> = oneshot::Sender<Result<T, ServerError>>;

enum Command {
    /// Findings in these texts. Where the disk is what they are, other open files follow it first.
    Check { files: Vec<OpenText>, purpose: CheckPurpose, reply: Reply<Vec<Findings>> },
    /// A question about a place in a file.
    Ask { file: OpenText, question: Question, reply: Reply<ServerAnswer> },
    /// Files have changed on the disk.
    Changed { files: Vec<(PathBuf, DiskChange)> },
    /// Last findings in all files that are open.
    Recall { purpose: CheckPurpose, reply: oneshot::Sender<Vec<(PathBuf, Findings)>> },
    /// It is not needed any more.
    Stop { reply: oneshot::Sender<()> },
}

/// A question about a place in a file.
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) position: WirePosition,
    /// Further parameters.
    pub(crate) more: Vec<(&'static str, Value)>,
}

/// Condition of a server, for those who decide how long they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// It does not run, or has not answered yet.
    Cold,
    Warm,
    /// It is not started any more.
    GivenUp,
}

/// The front of a server. The process ends with it.
pub(crate) struct ServerHandle {
    pub(crate) parts: Arc<ServerParts>,
    commands: mpsc::Sender<Command>,
    condition: watch::Receiver<Condition>,
    /// True if the end of a turn has waited for it since it answered last.
    was_awaited: AtomicBool,
    _task: AbortOnDropHandle<()>,
}

impl ServerHandle {
    /// A server that is not running yet.
    pub(crate) fn spawn(parts: ServerParts) -> Self {
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let (sender, condition) = watch::channel(Condition::Cold);
        let parts = Arc::new(parts);
        let task = AbortOnDropHandle::new(tokio::spawn(actor::run(Arc::clone(&parts), receiver, sender)));
        Self { parts, commands, condition, was_awaited: AtomicBool::new(false), _task: task }
    }

    /// Returns whether it runs and has answered before.
    pub(crate) fn is_warm(&self) -> bool {
        *self.condition.borrow() == Condition::Warm
    }

    /// Returns true if the end of a turn may wait long for it: it has answered before, or was never given the time to.
    pub(crate) fn deserves_time(&self) -> bool {
        let is_warm = self.is_warm();
        !self.was_awaited.swap(!is_warm, Ordering::Relaxed) || is_warm
    }

    /// Returns whether it is not started any more.
    pub(crate) fn is_given_up(&self) -> bool {
        *self.condition.borrow() == Condition::GivenUp
    }

    /// Findings in texts, in their order.
    pub(crate) async fn check(
        &self,
        files: Vec<OpenText>,
        purpose: CheckPurpose,
    ) -> Result<Vec<Findings>, ServerError> {
        self.send(|reply| Command::Check { files, purpose, reply }).await
    }

    /// Starts it, and lets it look at these texts. Nobody waits for that.
    pub(crate) fn look_ahead(&self, files: Vec<OpenText>) {
        let (reply, _) = oneshot::channel();
        // One that is busy is at work already.
        let _ = self.commands.try_send(Command::Check { files, purpose: CheckPurpose::Comparison, reply });
    }

    /// Answer to a question.
    pub(crate) async fn ask(&self, file: OpenText, question: Question) -> Result<ServerAnswer, ServerError> {
        self.send(|reply| Command::Ask { file, question, reply }).await
    }

    /// Tells it of changes on the disk, if it runs.
    pub(crate) async fn tell_changed(&self, files: Vec<(PathBuf, DiskChange)>) {
        let _ = self.commands.send(Command::Changed { files }).await;
    }

    /// Its last findings in all files that it was told of last, as they count for this purpose.
    pub(crate) async fn recall(&self, purpose: CheckPurpose) -> Vec<(PathBuf, Findings)> {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Recall { purpose, reply }).await;
        answer.await.unwrap_or_default()
    }

    /// Ends it.
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
    async fn a_server_that_never_answers_is_waited_for_once() {
        let LanguageConfig { mut servers, limits } = tests::config(Path::new("mute"), &["mute"]);
        let (config, confiner) = (servers.remove(0), Arc::new(tests::NoWalls));
        let parts = ServerParts { config, limits, folder: PathBuf::new(), root: PathBuf::new(), confiner };
        let (sender, condition) = watch::channel(Condition::Cold);
        let server = ServerHandle { condition, ..ServerHandle::spawn(parts) };
        let waits = || [0; 3].map(|_| server.deserves_time());
        assert_eq!(waits(), [true, false, false]);
        sender.send_replace(Condition::Warm);
        assert_eq!(waits(), [true; 3]);
        // Started again after a rest or a crash.
        sender.send_replace(Condition::Cold);
        assert_eq!(waits(), [true, false, false]);
    }
}
