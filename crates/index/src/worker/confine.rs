//! Giving up rights, before the first byte of a document is looked at: see [`agentd_confine`].

use std::io;

use agentd_confine::{Access, ProcessLimits};

use crate::limits::Limits;

/// Descriptors that a worker needs: its three streams, and a copy of one.
const OPEN_FILES: u64 = 16;

/// Limits what this process may take, for good.
///
/// # Errors
/// When the system refuses, because less was allowed before: then there is no worker.
pub fn limit(limits: &Limits) -> io::Result<()> {
    agentd_confine::limit(&ProcessLimits { memory: limits.memory, time: Some(limits.time), open_files: OPEN_FILES })
}

/// Gives up whatever else can be given up, for this thread and those that it starts. Returns whether system calls are
/// filtered from here on.
///
/// # Errors
/// When the system knows how to and does not: then there is no worker.
pub fn give_up_rights() -> io::Result<bool> {
    agentd_confine::give_up_rights(&Access::Nothing)
}
