//! Confinement of a process that parses untrusted input.
//!
//! The process is another instance of the daemon's own program. Before it reads the first byte, it limits its resources
//! ([`limit`]) and drops its rights ([`drop_rights`]). On Linux, the limits cover memory, time, file size and
//! descriptors. Seccomp only allows the system calls that a computation on open files needs, so the process cannot send
//! data, start programs or signal other processes. Landlock only allows reading, and only below the given folder. The
//! process cannot gain new privileges. The existence and times of other paths remain visible. Other systems only
//! support the limits, and no folder can be specified.
//!
//! The crate also contains code shared by such processes: their start ([`run`], [`enter`]) and the framing of their
//! messages ([`frame`]).

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

/// Entry point of a confined process whose first argument is `name`. Its only other argument is the job from the
/// daemon.
pub fn run(name: &str, purpose: &str, arguments: &[OsString], work: impl FnOnce(&[u8]) -> io::Result<()>) -> ExitCode {
    let done = match arguments {
        [job] => work(job.as_encoded_bytes()),
        _ => Err(io::Error::other(format!("internal command: only the daemon may run it, to {purpose}"))),
    };
    done.map_or_else(
        |error| {
            eprintln!("agentd {name}: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// Drops all rights except those in `access`, and returns the input and output streams. Reads no input before that.
/// Redirects standard output to `/dev/null`, so that library output cannot mix with the messages.
///
/// # Errors
/// As [`limit`] and [`drop_rights`]. The process must then exit.
pub fn enter(limits: &ProcessLimits, access: &Access<'_>) -> io::Result<(File, File)> {
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = OwnedFd::from(out.try_clone()?);
    limit(limits)?;
    drop_rights(access)?;
    // Exits as soon as the reading end of the output is closed, because the daemon then has ended or no longer needs
    // the result. The parent-death signal is unsuitable: it is sent when the daemon's thread that started this process
    // ends, which may be long before the daemon ends.
    thread::Builder::new().name("exit".to_owned()).stack_size(64 * 1024).spawn(move || {
        // No events are requested, because `poll` always reports a closed other end.
        while poll(&mut [PollFd::new(output.as_fd(), PollFlags::empty())], PollTimeout::NONE) == Err(Errno::EINTR) {}
        std::process::exit(1);
    })?;
    Ok((input, out))
}

/// Encodes a message between the daemon and a confined process: the length in four bytes, followed by the body.
///
/// # Errors
/// Fails if the body is longer than `max` bytes.
pub fn frame(body: &[u8], max: usize) -> io::Result<Vec<u8>> {
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= max);
    let length = length.ok_or_else(|| io::Error::other(format!("the message is longer than {max} bytes")))?;
    Ok([&length.to_le_bytes()[..], body].concat())
}

/// Reads a message. Returns `None` at the end of the stream.
///
/// # Errors
/// Fails if the stream ends within the message, or the body is longer than `max` bytes.
pub fn read_frame(input: &mut impl Read, max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; frame_length(length, max)?];
    input.read_exact(&mut body)?;
    Ok(Some(body))
}

/// Decodes the length of a message.
///
/// # Errors
/// Fails if the length exceeds `max` bytes.
pub fn frame_length(length: [u8; 4], max: usize) -> io::Result<usize> {
    let length = u32::from_le_bytes(length);
    let checked = usize::try_from(length).ok().filter(|length| *length <= max);
    checked
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes is too long")))
}

/// Resource limits of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Address space in bytes, including the program.
    pub memory: u64,
    /// Processor time. `None` for a long-lived process.
    pub time: Option<Duration>,
    /// Number of open descriptors.
    pub open_files: u64,
}

/// Files that remain accessible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access<'path> {
    /// Only files that are already open.
    Nothing,
    /// Files in this folder, only for reading. Changes in the folder can be watched.
    Read(&'path Path),
}

/// Permanently limits the resources of this process.
///
/// # Errors
/// Fails if the system refuses because lower limits were set before. The process must then exit.
pub fn limit(limits: &ProcessLimits) -> io::Result<()> {
    let set = |resource, max| setrlimit(resource, max, max).map_err(io::Error::from);
    set(Resource::RLIMIT_CORE, 0)?;
    set(Resource::RLIMIT_FSIZE, 0)?;
    if let Some(time) = limits.time {
        let seconds = time.as_secs().saturating_add(1);
        // At the soft limit, the process gets a distinct signal, which identifies the cause of death.
        setrlimit(Resource::RLIMIT_CPU, seconds, seconds.saturating_add(5))?;
    }
    set(Resource::RLIMIT_AS, limits.memory)?;
    set(Resource::RLIMIT_NOFILE, limits.open_files)
}

/// Drops all rights that can be dropped and are not in `access`, for this thread and the threads that it starts.
/// Returns true if system calls are now filtered.
///
/// # Errors
/// Fails if the system supports the confinement but applying it fails, or if `access` specifies a folder and the system
/// cannot block other paths. The process must then exit.
#[cfg(target_os = "linux")]
pub fn drop_rights(access: &Access<'_>) -> io::Result<bool> {
    linux::close_paths(access)?;
    linux::filter_calls(access)
}

/// Does nothing, because other systems do not support dropping rights.
///
/// # Errors
/// Fails if `access` specifies a folder.
#[cfg(not(target_os = "linux"))]
pub fn drop_rights(access: &Access<'_>) -> io::Result<bool> {
    match access {
        Access::Nothing => Ok(false),
        Access::Read(_) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot confine processes that read a folder"))
        }
    }
}
