//! The index of source code: the adapter that the feature `code` brings, or none.

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
    sync::Arc,
};

use agentd_core::ports::CodeReader;

/// The reader of code, whose workers are started from this program. Nothing runs before the first question.
#[cfg(feature = "code")]
pub(crate) fn reader(program: &str) -> Option<Arc<dyn CodeReader>> {
    Some(Arc::new(agentd_code::CodePool::new(agentd_code::PoolConfig::new(program.into()))))
}

/// Does the work of a reader of one folder, where the first argument says that this process is one.
#[cfg(feature = "code")]
pub fn run_worker(first: &OsStr, rest: &[OsString]) -> Option<ExitCode> {
    let is_allowed = |path: &str| !agentd_policy::holds_secrets(path);
    (first == agentd_code::WORKER_ARGUMENT).then(|| agentd_code::run_worker(rest, is_allowed))
}

/// None: this build indexes no code, and offers no tools for it.
#[cfg(not(feature = "code"))]
pub(crate) fn reader(_program: &str) -> Option<Arc<dyn CodeReader>> {
    None
}

/// Knows no workers.
#[cfg(not(feature = "code"))]
pub fn run_worker(_first: &OsStr, _rest: &[OsString]) -> Option<ExitCode> {
    None
}
