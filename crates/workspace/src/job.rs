//! State of a call that runs on a blocking thread.

use std::{sync::Arc, time::Instant};

use agentd_core::ports::{ReadRules, ToolContext};
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{Files, client::FileClient},
    failure::Failure,
    limits::Limits,
    path::{ToolPath, within_project},
};

/// Placeholder for file content that an error must not quote.
pub const UNQUOTED: &str = "reading the file requires approval, so its content is not shown";

/// Context of a running file tool.
#[derive(Debug, Clone)]
pub struct Job {
    /// Files of the call. All file access goes through this field.
    pub files: Files,
    /// Limits on what a call may read, write, visit and return.
    pub limits: Limits,
    /// Deadline for searches and long reads.
    pub(crate) deadline: Instant,
    /// Rules for reading files that the call did not name.
    pub reading: ReadRules,
    /// The client's folder, if it is in the project.
    pub client_folder: Option<ToolPath>,
    cancel: CancellationToken,
}

impl Job {
    /// Creates a job without rules for reading.
    pub fn new(files: Files, limits: Limits, cancel: CancellationToken) -> Self {
        let deadline = Instant::now() + limits.search_time;
        Self { files, limits, deadline, reading: ReadRules::default(), client_folder: None, cancel }
    }

    /// Creates the job of a call, with its rules, its folder and its client's files.
    pub fn of(context: &ToolContext, limits: &Limits, cancel: CancellationToken) -> Self {
        let files = Files::new(Arc::clone(&context.workspace), &context.state_files, context.now);
        let files = files.with_client(FileClient::of(context, cancel.clone()));
        let client_folder = context.environment.folder().and_then(|folder| within_project(&context.workspace, folder));
        Self { reading: context.reading.clone(), client_folder, ..Self::new(files, limits.clone(), cancel) }
    }

    /// Fails if the turn was cancelled. Called between files.
    pub fn check(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() { Err(Failure::cancelled()) } else { Ok(()) }
    }

    /// Returns true if an error may quote the file or name a position in it. A failed call must not reveal the content
    /// of a file whose reading requires approval, since the user was not asked.
    pub fn may_quote(&self, path: &ToolPath) -> bool {
        self.reading.allow(&path.to_string())
    }

    /// Returns true if the turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns true after the deadline.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
