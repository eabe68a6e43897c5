//! Code of folders, read and found by whoever parses it.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    code::{CodeProgress, CodeQuestion, CodeReply},
    error::CodeError,
};

/// Reads the code of folders and answers questions about it. A folder is indexed at its first question, shared by all who
/// ask, and kept current. What code does to whoever parses it stays its own affair: a failure comes back as an error.
pub trait CodeReader: Debug + Send + Sync {
    /// Answers a question about the code of a folder of the person, named by its real path. An answer that is no longer
    /// awaited leaves the index to go on.
    fn ask(
        &self,
        folder: PathBuf,
        question: CodeQuestion,
        progress: OnCodeProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<CodeReply, CodeError>>;
}

/// Told how far an index is that is being made. Called often, from a task that must not wait.
pub type OnCodeProgress = Arc<dyn Fn(CodeProgress) + Send + Sync>;
