//! The helper: a single-threaded process that confines itself and becomes the command.
//!
//! There are up to three processes. The daemon starts the *outer* process. With namespaces, the outer process forks the
//! *keeper*, the first process of a new process table. Without namespaces, the outer process is also the keeper and
//! adopts every orphan. The keeper forks the *command*, owns the control socket, reaps processes, and kills the
//! remaining processes when the command has ended or the control socket has closed.
//!
//! - `root`: user, mount and process namespaces; mounts, the names of the session's folders, and replaced files.
//! - [`mod@keeper`]: waits for the command and kills processes; creates the private network with the daemon's proxy.
//! - [`mod@command`]: applies limits, privileges, file access and system call filters, then starts the program. The
//!   order matters, because each step needs rights that the next step removes. Also looks up the program.
//! - `files`: Landlock, and the files with keys that are hidden.
//! - `calls`: seccomp, and system calls without a wrapper.

mod calls;
mod command;
mod files;
mod keeper;
mod root;

use std::{
    ffi::{CString, OsString},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStringExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::ExitCode,
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::wait::waitpid,
    unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork},
};

use crate::{
    config::{Name, Policy, Report},
    places,
};

/// Maximum size of a policy, in bytes.
const MAX_POLICY: u64 = 1024 * 1024;

/// Result of a step. The error is a sentence for the log.
type Step<T> = Result<T, String>;

/// Prefixes an error with the action that failed.
fn step<E: std::fmt::Display>(attempted: &str) -> impl FnOnce(E) -> String + '_ {
    move |error| format!("could not {attempted}: {error}")
}

/// Program to run, its policy and its start folder.
struct Program {
    policy: Policy,
    folder: Folder,
    /// Program file and its arguments; empty if there is no command.
    line: Vec<CString>,
    environment: Vec<(OsString, OsString)>,
}

/// Becomes `command` in this environment, confined by the policy that is read from standard input. Without a command,
/// only probes the kernel. Must be the first call in `main`, before any thread, logging or configuration.
pub fn run_helper(command: Vec<OsString>, environment: impl IntoIterator<Item = (OsString, OsString)>) -> ExitCode {
    let Ok(socket) = take_socket() else { return ExitCode::FAILURE };
    match outer(&socket, command, environment.into_iter().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            send_report(&socket, &Report::Failed(reason));
            ExitCode::FAILURE
        }
    }
}

/// Takes ownership of the control socket, which is standard input, and moves it so that no program inherits it.
#[allow(unsafe_code, reason = "takes ownership of a raw descriptor")]
fn take_socket() -> io::Result<UnixStream> {
    let fd = fcntl(io::stdin().as_fd(), FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: `fcntl` has just created this descriptor for this process.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let dev_null = std::fs::File::open("/dev/null")?;
    dup2_stdin(&dev_null)?;
    Ok(socket.into())
}

/// Closes the helper's ends of the pipes, so that the pipes close when the command ends.
fn release_output() -> Step<()> {
    let dev_null = dev_null()?;
    dup2_stdin(&dev_null)
        .and_then(|()| dup2_stdout(&dev_null))
        .and_then(|()| dup2_stderr(&dev_null))
        .map_err(step("close the output pipes"))
}

fn dev_null() -> Step<std::fs::File> {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map_err(step("open /dev/null"))
}

/// Writes one report as a line. A closed pipe is ignored.
fn send_report(mut socket: &UnixStream, report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = socket.write_all(&line);
    }
}

fn outer(socket: &UnixStream, command: Vec<OsString>, environment: Vec<(OsString, OsString)>) -> Step<()> {
    let mut policy = read_policy(socket)?;
    if policy.input {
        // Moves the input to standard input, which the control socket occupied at the start.
        dup2_stdin(io::stderr().as_fd()).map_err(step("move the input"))?;
        dup2_stderr(&dev_null()?).map_err(step("move the input"))?;
    }
    let found = files::search(&policy);
    policy.hidden.extend(found.hidden);
    if !policy.namespaces {
        // Without namespaces, the reduced text cannot be mounted in place of the file.
        policy.hidden.extend(found.reduced.iter().map(|(path, _)| path.clone()));
    }
    let line = command
        .into_iter()
        .map(|part| CString::new(part.into_vec()).map_err(step("read the command")))
        .collect::<Step<Vec<_>>>()?;
    let environment = environment.into_iter().filter(|(name, value)| !leads_to_hidden(name, value, &policy)).collect();
    // Detaches from the daemon's terminal, if any.
    nix::unistd::setsid().map_err(step("leave the daemon's session"))?;
    let folder = Folder::current()?;
    let namespaces = if policy.namespaces { Some(root::enter(&policy, &found.reduced)?) } else { None };
    let program = Program { policy, folder, line, environment };
    if program.policy.gateway {
        if namespaces.is_none() {
            return Err("there are no namespaces, so the command could bypass the proxy".to_owned());
        }
        keeper::open_gateway(socket)?;
    }
    if namespaces.is_none() {
        nix::sys::prctl::set_child_subreaper(true).map_err(step("adopt orphans"))?;
        harden();
        return keeper::run(socket, &program, None);
    }
    match fork_alone()? {
        ForkResult::Child => {
            harden();
            let ran = calls::die_with_parent().and_then(|()| keeper::run(socket, &program, namespaces));
            if let Err(reason) = &ran {
                send_report(socket, &Report::Failed(reason.clone()));
            }
            std::process::exit(i32::from(ran.is_err()));
        }
        ForkResult::Parent { child } => {
            harden();
            release_output()?;
            while waitpid(child, None) == Err(nix::errno::Errno::EINTR) {}
            Ok(())
        }
    }
}

/// Returns true for a variable that makes git read a hidden file. Git would fail with such a variable.
fn leads_to_hidden(name: &OsString, value: &OsString, policy: &Policy) -> bool {
    name == "GIT_CONFIG_GLOBAL" && !policy.namespaces && {
        let real = Path::new(value).canonicalize();
        real.is_ok_and(|real| {
            policy.hidden.iter().any(|hidden| hidden.canonicalize().is_ok_and(|hidden| hidden == real))
        })
    }
}

/// Protects this process's memory and descriptors from processes of the same user. This is a second barrier: Landlock
/// already forbids such access.
fn harden() {
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// Forks this process. The process has a single thread, so the child may call the same functions as the parent.
#[allow(unsafe_code, reason = "`fork` is only unsafe with several threads")]
fn fork_alone() -> Step<ForkResult> {
    // SAFETY: the helper has one thread: `main` calls `run_helper` before it starts threads, and the helper starts
    // none.
    unsafe { fork() }.map_err(step("fork"))
}

fn read_policy(mut socket: &UnixStream) -> Step<Policy> {
    // Reads exactly the policy, because the bytes after it are for the keeper.
    let mut length = [0; 4];
    socket.read_exact(&mut length).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "no policy received".to_owned(),
        _ => step("read the policy")(error),
    })?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_POLICY {
        return Err(format!("the policy is too long: {length} bytes"));
    }
    let mut text = Vec::new();
    socket.take(length).read_to_end(&mut text).map_err(step("read the policy"))?;
    serde_json::from_slice(&text).map_err(step("parse the policy"))
}

/// Start folder of the command, which the daemon opened and made the helper's working folder.
struct Folder {
    path: PathBuf,
    identity: (u64, u64),
}

impl Folder {
    fn current() -> Step<Self> {
        let path = std::env::current_dir().map_err(step("find the start folder"))?;
        Ok(Self { identity: identity()?, path })
    }

    /// Enters the folder again by its current name. After mounting, the path may lead to another view of the folder.
    fn enter(&self, names: &[Name]) -> Step<()> {
        let path = places::named(names, &self.path).unwrap_or_else(|| self.path.clone());
        std::env::set_current_dir(path).map_err(step("enter the start folder"))?;
        if identity()? == self.identity {
            return Ok(());
        }
        Err("the start folder was replaced".to_owned())
    }
}

fn identity() -> Step<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(".").map_err(step("check the start folder"))?;
    Ok((metadata.dev(), metadata.ino()))
}
