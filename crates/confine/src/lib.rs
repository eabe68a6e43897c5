//! Confinement of a process that reads what strangers wrote.
//!
//! Such a process is the daemon's own program, started once more. Before it looks at the first byte it limits what it may
//! take ([`limit`]) and gives up its rights ([`give_up_rights`]). What holds on Linux: no memory, time, file size or
//! descriptors beyond the limits; no system call but those that a program needs to compute with what it has, so nothing is
//! sent and nothing is started (seccomp), and no path can be reached but those below the folder that it was given, for
//! reading (Landlock); no signal to another process; no new privileges. That a path exists, and when it was changed, can
//! still be seen of any. On other systems only the limits hold, and no folder is given.
//!
//! What all such processes share is here as well: how one begins ([`run`], [`enter`]) and how it is spoken to ([`frame`]).

#[cfg(target_os = "linux")]
mod linux;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::resource::{Resource, setrlimit},
    unistd::dup2_stdout,
};

/// Does the work of a process whose first argument is `name`; its only other one is the job, as the daemon wrote it.
pub fn run(name: &str, purpose: &str, arguments: &[OsString], work: impl FnOnce(&[u8]) -> io::Result<()>) -> ExitCode {
    let done = match arguments {
        [job] => work(job.as_encoded_bytes()),
        _ => Err(io::Error::other(format!("this is started by the daemon, to {purpose}"))),
    };
    done.map_or_else(
        |error| {
            eprintln!("agentd {name}: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Gives up all rights but these and returns what is left: the stream to read and the one to tell by. Nothing was read before. What a
/// library prints goes nowhere, so that it cannot get between what is told.
///
/// # Errors
/// As [`limit`] and [`give_up_rights`]: then the process has to end.
pub fn enter(limits: &ProcessLimits, access: &Access<'_>) -> io::Result<(File, File)> {
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let leash = OwnedFd::from(out.try_clone()?);
    limit(limits)?;
    give_up_rights(access)?;
    // Ends this process as soon as nobody reads what it tells: the daemon is gone, or no longer wants it. The signal that follows a
    // parent's death would come when the daemon's thread ends that started this, which may be long before.
    thread::Builder::new().name("leash".to_owned()).stack_size(64 * 1024).spawn(move || {
        // No event is asked for: that the other end was closed is told always.
        while poll(&mut [PollFd::new(leash.as_fd(), PollFlags::empty())], PollTimeout::NONE) == Err(Errno::EINTR) {}
        std::process::exit(1);
    })?;
    Ok((input, out))
}

/// Bytes as they are told between the daemon and such a process: their length in four bytes, and they.
///
/// # Errors
/// When there are more than may be told at once.
pub fn frame(body: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= most);
    let length = length.ok_or_else(|| io::Error::other("the answer is too long"))?;
    Ok([&length.to_le_bytes()[..], body].concat())
}

/// Reads bytes that were told so; none at the end of the stream.
///
/// # Errors
/// When the stream ends within them, or there are more than may be told at once.
pub fn read_frame(input: &mut impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; frame_length(length, most)?];
    input.read_exact(&mut body)?;
    Ok(Some(body))
}

/// Length of what is told behind these bytes.
///
/// # Errors
/// When there are more than may be told at once.
pub fn frame_length(length: [u8; 4], most: usize) -> io::Result<usize> {
    let length = u32::from_le_bytes(length);
    let known = usize::try_from(length).ok().filter(|length| *length <= most);
    known.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")))
}

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
