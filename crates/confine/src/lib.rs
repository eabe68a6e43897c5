//! Confinement of a process that reads what strangers wrote.
//!
//! Such a process is the daemon's own program, started once more. Before it looks at the first byte it limits what it may
//! take ([`limit`]) and gives up its rights ([`give_up_rights`]). What holds on Linux: no memory, time, file size or
//! descriptors beyond the limits; no system call but those that a program needs to compute with what it has, so nothing is
//! sent and nothing is started (seccomp), and no path can be reached but those below the folder that it was given, for
//! reading (Landlock); no signal to another process; no new privileges. That a path exists, and when it was changed, can
//! still be seen of any. On other systems only the limits hold, and no folder is given.

#[cfg(target_os = "linux")]
mod linux;

use std::{io, path::Path, time::Duration};

use nix::sys::resource::{Resource, setrlimit};

/// Bounds on what a process may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Bytes of address space, its program included.
    pub memory: u64,
    /// Processor time of its life; none for a process that lives on.
    pub time: Option<Duration>,
    /// Open descriptors.
    pub open_files: u64,
}

/// Files that stay within reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access<'path> {
    /// None but those that are open already.
    Nothing,
    /// Those below this folder, for reading. Changes in it can be heard of.
    Read(&'path Path),
}

/// Limits what this process may take, for good.
///
/// # Errors
/// When the system refuses, because less was allowed before: then the process has to end.
pub fn limit(limits: &ProcessLimits) -> io::Result<()> {
    let set = |resource, most| setrlimit(resource, most, most).map_err(io::Error::from);
    set(Resource::RLIMIT_CORE, 0)?;
    set(Resource::RLIMIT_FSIZE, 0)?;
    if let Some(time) = limits.time {
        let seconds = time.as_secs().saturating_add(1);
        // The softer limit has a signal of its own, by which this end is known.
        setrlimit(Resource::RLIMIT_CPU, seconds, seconds.saturating_add(5))?;
    }
    set(Resource::RLIMIT_AS, limits.memory)?;
    set(Resource::RLIMIT_NOFILE, limits.open_files)
}

/// Gives up whatever else can be given up, for this thread and those that it starts. Returns whether system calls are
/// filtered from here on.
///
/// # Errors
/// When the system knows how to and does not, or files were to stay within reach and it knows no way to close the others:
/// then the process has to end.
#[cfg(target_os = "linux")]
pub fn give_up_rights(access: &Access<'_>) -> io::Result<bool> {
    linux::close_paths(access)?;
    linux::filter_calls(access)
}

/// Other systems know no such thing.
///
/// # Errors
/// If files were to stay within reach.
#[cfg(not(target_os = "linux"))]
pub fn give_up_rights(access: &Access<'_>) -> io::Result<bool> {
    match access {
        Access::Nothing => Ok(false),
        Access::Read(_) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system confines no reader of a folder"))
        }
    }
}
