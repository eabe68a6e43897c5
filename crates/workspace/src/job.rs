//! One call at work on a thread that may block.

use std::{sync::Arc, time::Instant};

use agentd_core::ports::{ReadRules, ToolContext};
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{Files, client::FileClient},
    failure::Failure,
    limits::Limits,
    path::{ToolPath, within_project},
};

/// Stand-in for text that a failure may not quote.
pub const UNQUOTED: &str = "the file may not be read without asking, so nothing of it is shown";

/// Everything a tool needs while it runs.
#[derive(Debug, Clone)]
pub struct Job {
    /// The only way to files.
    pub files: Files,
    /// Limits on what it may read, write, visit and return.
    pub limits: Limits,
    /// When it has to stop looking.
    pub(crate) deadline: Instant,
    /// Rules about files that it comes upon.
    pub reading: ReadRules,
    /// Where the client is in the project.
    pub here: Option<ToolPath>,
    cancel: CancellationToken,
}

impl Job {
    /// A job without rules on what it reads.
    pub fn new(files: Files, limits: Limits, cancel: CancellationToken) -> Self {
        let deadline = Instant::now() + limits.search_time;
        Self { files, limits, deadline, reading: ReadRules::default(), here: None, cancel }
    }

    /// The job of a call, with its rules, its folder and the files that its client holds.
    pub fn of(context: &ToolContext, limits: &Limits, cancel: CancellationToken) -> Self {
        let files = Files::new(Arc::clone(&context.workspace), &context.state_files, context.now);
        let files = files.held_by(FileClient::of(context, cancel.clone()));
        let here = context.environment.folder().and_then(|folder| within_project(&context.workspace, folder));
        Self { reading: context.reading.clone(), here, ..Self::new(files, limits.clone(), cancel) }
    }

    /// Fails once the turn is cancelled; asked between files.
    pub fn check(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() { Err(Failure::cancelled()) } else { Ok(()) }
    }

    /// Returns whether a failure may quote the file, or say where in it something stands. A file that the rules do not
    /// let be read without asking is not told of by a call that goes wrong either: nobody was asked about that.
    pub fn may_quote(&self, path: &ToolPath) -> bool {
        self.reading.allow(&path.to_string())
    }

    /// Returns true once the turn is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns true once the time for looking is over.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
