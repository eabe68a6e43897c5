//! The source code index: the adapter of the feature `code`, or a substitute without it.

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
    sync::Arc,
};

use agentd_core::ports::{CodeReader, Models};

/// Creates the code reader. Its workers are started from this binary, not before the first query.
#[cfg(feature = "code")]
pub(crate) fn reader(program: &str, models: Arc<dyn Models>) -> Option<Arc<dyn CodeReader>> {
    let pool = agentd_code::CodePool::new(agentd_code::PoolConfig::new(program.into()));
    Some(Arc::new(pool.with_embeddings(models)))
}

/// Runs the worker for one folder if the first argument requests it.
#[cfg(feature = "code")]
pub fn run_worker(first: &OsStr, rest: &[OsString]) -> Option<ExitCode> {
    let is_allowed = |path: &str| !agentd_policy::holds_secrets(path);
    (first == agentd_code::WORKER_ARGUMENT).then(|| agentd_code::run_worker(rest, is_allowed))
}

/// Returns `None`: this build has no code index and offers no code tools.
#[cfg(not(feature = "code"))]
pub(crate) fn reader(_program: &str, _models: Arc<dyn Models>) -> Option<Arc<dyn CodeReader>> {
    None
}

/// Returns `None`: this build has no code workers.
#[cfg(not(feature = "code"))]
pub fn run_worker(_first: &OsStr, _rest: &[OsString]) -> Option<ExitCode> {
    None
}
