//! The index of source code: the adapter that the feature `code` brings, or none.

#[cfg(feature = "code")]
mod indexed {
    use std::{
        ffi::{OsStr, OsString},
        process::ExitCode,
        sync::Arc,
    };

    use agentd_code::{CodePool, PoolConfig, WORKER_ARGUMENT};
    use agentd_core::ports::CodeReader;
    use agentd_policy::holds_secrets;

    /// The reader of code, whose workers are started from this program. Nothing runs before the first question.
    pub(crate) fn reader(program: &str) -> Option<Arc<dyn CodeReader>> {
        Some(Arc::new(CodePool::new(PoolConfig::new(program.into()))))
    }

    /// Does the work of a reader of one folder, where the first argument says that this process is one.
    #[must_use]
    pub fn run_worker(first: &OsStr, rest: &[OsString]) -> Option<ExitCode> {
        (first == WORKER_ARGUMENT).then(|| agentd_code::run_worker(rest, |path| !holds_secrets(path)))
    }
}

#[cfg(not(feature = "code"))]
mod missing {
    use std::{
        ffi::{OsStr, OsString},
        process::ExitCode,
        sync::Arc,
    };

    use agentd_core::ports::CodeReader;

    /// None: this build indexes no code, and offers no tools for it.
    pub(crate) fn reader(_program: &str) -> Option<Arc<dyn CodeReader>> {
        None
    }

    /// Knows no workers.
    #[must_use]
    pub fn run_worker(_first: &OsStr, _rest: &[OsString]) -> Option<ExitCode> {
        None
    }
}

#[cfg(feature = "code")]
pub(crate) use indexed::reader;
#[cfg(feature = "code")]
pub use indexed::run_worker;
#[cfg(not(feature = "code"))]
pub(crate) use missing::reader;
#[cfg(not(feature = "code"))]
pub use missing::run_worker;
